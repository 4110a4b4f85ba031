// The address that was typed into one of the account forms is not asked for again by the next. In memory only, and
// forgotten when it has served.
let typed = "";

export function typedEmail() {
  return typed;
}

export function keepTypedEmail(email: string) {
  typed = email;
}

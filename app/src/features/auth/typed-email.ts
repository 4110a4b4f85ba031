// Keeps the address typed into one account form for the next form. In memory only, and
// forgotten when it has served.
let typed = "";

export function typedEmail() {
  return typed;
}

export function keepTypedEmail(email: string) {
  typed = email;
}

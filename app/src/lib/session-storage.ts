import type { SupportedStorage } from "@supabase/supabase-js";

const onlyThisTab = "basalt.session-only";

/**
 * Where supabase-js keeps the session: local storage when the person wants to be remembered, else the
 * storage of this tab, which the browser forgets with it.
 */
export const sessionStorageAdapter: SupportedStorage = {
  getItem: (key) => sessionStorage.getItem(key) ?? localStorage.getItem(key),
  setItem: (key, value) => {
    const [keep, forget] = isOnlyThisTab() ? [sessionStorage, localStorage] : [localStorage, sessionStorage];
    // Written before the other is removed: a full storage must not cost the session.
    keep.setItem(key, value);
    forget.removeItem(key);
  },
  removeItem: (key) => {
    sessionStorage.removeItem(key);
    localStorage.removeItem(key);
  },
};

/** To be called before signing in; holds for this tab until called again. */
export function rememberSession(remember: boolean) {
  if (remember) sessionStorage.removeItem(onlyThisTab);
  else sessionStorage.setItem(onlyThisTab, "1");
}

/**
 * Whether this browser may be signed in: a session is stored, or the address brings one from a mail.
 * Without, there is no need of the client to know that this is a visitor.
 */
export function mayHaveSession() {
  const keys = [...Object.keys(localStorage), ...Object.keys(sessionStorage)];
  const { hash, search } = window.location;
  return keys.some((key) => /^sb-.+-auth-token$/.test(key)) || /[#?&](access_token|code|error)=/.test(hash + search);
}

function isOnlyThisTab() {
  return sessionStorage.getItem(onlyThisTab) !== null;
}

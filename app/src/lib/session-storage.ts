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

/** Whether this browser holds a session, good or not. */
export function hasStoredSession() {
  return [...Object.keys(localStorage), ...Object.keys(sessionStorage)].some((key) => /^sb-.+-auth-token$/.test(key));
}

/**
 * Whether it held one when the page opened. Read at once: the client drops a session that is over as soon as it
 * meets it, and a route's loader asks the client before the first screen stands.
 */
export const sessionStoredAtStart = hasStoredSession();

/** Whether the page's address brought a session, or the reason why there is none, from a mail. Read at once, as above. */
export const sessionInAddress = /[#?&](access_token|code|error)=/.test(window.location.hash + window.location.search);

function isOnlyThisTab() {
  return sessionStorage.getItem(onlyThisTab) !== null;
}

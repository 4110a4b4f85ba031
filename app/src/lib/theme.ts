export type Theme = "light" | "dark";

// public/theme.js reads the same key before the first paint.
const key = "theme";
const systemPrefersDark = () => matchMedia("(prefers-color-scheme: dark)");

export function currentTheme(): Theme {
  return document.documentElement.classList.contains("dark") ? "dark" : "light";
}

/** Applies the choice and keeps it for the next visit. */
export function chooseTheme(theme: Theme) {
  try {
    localStorage.setItem(key, theme);
  } catch {
    // Storage may be blocked: the choice then lasts as long as the page.
  }
  document.documentElement.classList.toggle("dark", theme === "dark");
}

/** Calls back when the theme changes, also by the system while the person has not chosen. For `useSyncExternalStore`. */
export function watchTheme(changed: () => void) {
  const observer = new MutationObserver(changed);
  observer.observe(document.documentElement, { attributeFilter: ["class"] });
  const system = systemPrefersDark();
  const follow = ({ matches }: MediaQueryListEvent) => {
    if (!hasChosen()) document.documentElement.classList.toggle("dark", matches);
  };
  system.addEventListener("change", follow);
  return () => {
    observer.disconnect();
    system.removeEventListener("change", follow);
  };
}

function hasChosen() {
  try {
    return localStorage.getItem(key) !== null;
  } catch {
    return false;
  }
}

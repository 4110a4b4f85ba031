// Sets the theme before the first paint. src/lib/theme.ts changes it later and owns the key.
(() => {
  let choice = null;
  try {
    choice = localStorage.getItem("theme");
  } catch {
    // Storage may be blocked; the system's preference then decides.
  }
  const dark = choice ? choice === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.classList.toggle("dark", dark);
})();

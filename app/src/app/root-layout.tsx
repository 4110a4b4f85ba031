import { useEffect, useRef } from "react";
import { Outlet, ScrollRestoration, useLocation } from "react-router";
import { AuthProvider } from "@/features/auth/auth-context";
import { SiteHeader } from "./site-header";

export function RootLayout() {
  const { pathname } = useLocation();
  useHeadingFocus();
  return (
    // The landing page alone is the same for everyone, but for a link or two.
    <AuthProvider optional={pathname === "/"}>
      <a
        href="#main"
        className="sr-only focus:not-sr-only focus:fixed focus:top-3 focus:left-3 focus:z-50 focus:rounded-md focus:bg-surface-raised focus:px-4 focus:py-2 focus:shadow-raised"
      >
        Skip to content
      </a>
      <SiteHeader />
      <main id="main" tabIndex={-1} className="outline-none">
        <Outlet />
      </main>
      <ScrollRestoration />
    </AuthProvider>
  );
}

/** After a navigation a screen reader goes on at the new screen's heading, as after a page load. */
function useHeadingFocus() {
  const { pathname, state } = useLocation();
  const lastPath = useRef(pathname);
  useEffect(() => {
    if (lastPath.current === pathname) return;
    lastPath.current = pathname;
    const keepFocus = state && typeof state === "object" && "keepFocus" in state && state.keepFocus === true;
    if (!keepFocus) document.querySelector("h1")?.focus({ preventScroll: true });
  }, [pathname, state]);
}

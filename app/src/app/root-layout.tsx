import { useEffect, useRef } from "react";
import { Outlet, ScrollRestoration, useLocation, useNavigate } from "react-router";
import { LateToaster } from "@/components/late-toaster";
import { lazyExtra } from "@/components/lazy-part";
import { OfflineBar } from "@/components/offline-bar";
import { AuthProvider, useAuth } from "@/features/auth/auth-context";
import { LiveBrand } from "@/features/brand/logo";
import { mailLink } from "@/lib/mail-link";
import { toast } from "@/lib/toast";
import { PendingInvitation } from "./pending-invitation";
import { SiteHeader } from "./site-header";

const UpgradePrompt = lazyExtra(() =>
  import("@/features/billing/upgrade-prompt").then(({ UpgradePrompt }) => UpgradePrompt),
);

/** These do without the client at first: they are the same for everyone, but for a word or two. */
const publicPaths = ["/", "/pricing", "/terms", "/privacy"];

/** Links that sign in a person who has no password, or has forgotten it. */
const setsPassword: (string | null)[] = ["recovery", "invite"];

export function RootLayout() {
  const { pathname } = useLocation();
  useHeadingFocus();
  useMailLink();
  return (
    <AuthProvider optional={publicPaths.includes(pathname)}>
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
      <PendingInvitation pathname={pathname} />
      <OfflineBar />
      <LateToaster needed={!publicPaths.includes(pathname)} />
      <LiveBrand />
      <Prompt pathname={pathname} />
      <ScrollRestoration />
    </AuthProvider>
  );
}

function Prompt({ pathname }: { pathname: string }) {
  const { shouldPromptForSubscription } = useAuth();
  const unwanted = pathname === "/pricing" || pathname.startsWith("/dashboard/subscription");
  return shouldPromptForSubscription && !unwanted && <UpgradePrompt />;
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

/** A mail's link may end on another screen than it was made for: the server goes by its own list of allowed ones. */
function useMailLink() {
  const navigate = useNavigate();
  const location = useLocation();
  const followed = useRef(false);
  useEffect(() => {
    if (followed.current) return;
    // supabase-js clears the fragment, and that ends a navigation whose screen is still loading.
    // It also gives a new location, from which this navigates again.
    if (location.pathname !== "/reset-password" && mailLink.accessToken && setsPassword.includes(mailLink.type)) {
      void navigate("/reset-password", { replace: true });
      return;
    }
    followed.current = true;
    // The screen for a reset says itself what is wrong with a link.
    if (mailLink.error && location.pathname !== "/reset-password")
      toast.error("This link did not work", { description: mailLink.error });
  }, [navigate, location]);
}

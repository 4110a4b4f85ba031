import { MenuIcon, XIcon } from "lucide-react";
import { useEffect, useRef, useState } from "react";
import { Link, useLocation } from "react-router";
import { lazyExtra } from "@/components/lazy-part";
import { ThemeToggle } from "@/components/theme-toggle";
import { Button } from "@/components/ui/button";
import { useAuth } from "@/features/auth/auth-context";
import { Logo } from "@/features/brand/logo";
import { useScrolled } from "@/hooks/use-scrolled";
import { cn } from "@/lib/cn";

// Visitors have none, and its menu is heavier than the rest of the header.
const UserMenu = lazyExtra(
  () => import("@/features/auth/user-menu").then(({ UserMenu }) => UserMenu),
  <span className="size-11 rounded-full bg-muted" />,
);

const sections = [
  { href: "#features", label: "Features" },
  { href: "#for-nonprofits", label: "For Nonprofits" },
  { href: "#pricing", label: "Pricing" },
];

const link =
  "flex min-h-11 items-center rounded-md px-3 font-medium text-muted-foreground text-sm transition-colors hover:text-foreground md:min-h-9";

export function SiteHeader() {
  const { loading, user, isAdmin } = useAuth();
  const { pathname } = useLocation();
  const scrolled = useScrolled(20);
  // The path where the menu was opened: it closes with every navigation.
  const [menuOpenAt, setMenuOpenAt] = useState<string | null>(null);
  const menuButton = useRef<HTMLButtonElement>(null);
  const menuOpen = menuOpenAt === pathname;
  const closeMenu = () => setMenuOpenAt(null);

  const onLanding = pathname === "/";
  const showDashboard = user && !pathname.startsWith("/dashboard");
  const visitor = !loading && !user;
  const hasMenu = onLanding || visitor || showDashboard;

  useEffect(() => {
    if (!menuOpen) return;
    const closeByKey = (event: KeyboardEvent) => {
      if (event.key !== "Escape") return;
      setMenuOpenAt(null);
      menuButton.current?.focus();
    };
    document.addEventListener("keydown", closeByKey);
    return () => document.removeEventListener("keydown", closeByKey);
  }, [menuOpen]);

  return (
    <header
      className={cn(
        "sticky top-0 z-40 border-b transition-colors duration-200 print:hidden",
        scrolled || menuOpen ? "bg-background/85 backdrop-blur-md" : "border-transparent bg-background",
        menuOpen && "bg-background",
      )}
    >
      <div
        className={cn(
          "mx-auto flex h-16 items-center gap-2 px-4 sm:px-6",
          // There a sidebar takes the left edge, and the logo stands above it.
          !pathname.startsWith("/admin") && "max-w-6xl",
        )}
      >
        <Link to="/" aria-label="Basalt home" className="-ml-1 mr-auto flex min-h-11 items-center rounded-md px-1">
          <Logo size="small" className="sm:hidden" />
          <Logo size="regular" className="max-sm:hidden" />
        </Link>
        <nav aria-label="Main" className="hidden items-center gap-1 md:flex">
          {onLanding &&
            sections.map(({ href, label }) => (
              <a key={href} href={href} className={link}>
                {label}
              </a>
            ))}
          {showDashboard && (
            <Link to="/dashboard" className={link}>
              Dashboard
            </Link>
          )}
          {visitor && (
            <>
              <Link to="/login" className={link}>
                Log In
              </Link>
              <Button asChild size="medium" className="mr-1 ml-1 md:h-9">
                <Link to="/register">Get Started</Link>
              </Button>
            </>
          )}
        </nav>
        <ThemeToggle />
        {user && <UserMenu user={user} isAdmin={isAdmin} />}
        {hasMenu && (
          <Button
            ref={menuButton}
            variant="ghost"
            size="icon"
            className="-mr-2 md:hidden"
            aria-label={menuOpen ? "Close menu" : "Open menu"}
            aria-expanded={menuOpen}
            aria-controls={menuOpen ? "mobile-menu" : undefined}
            onClick={() => setMenuOpenAt(menuOpen ? null : pathname)}
          >
            {menuOpen ? <XIcon aria-hidden className="size-5!" /> : <MenuIcon aria-hidden className="size-5!" />}
          </Button>
        )}
      </div>
      {hasMenu && menuOpen && (
        <nav id="mobile-menu" aria-label="Main" className="grid gap-1 border-t px-4 pt-3 pb-5 md:hidden">
          {onLanding &&
            sections.map(({ href, label }) => (
              <a key={href} href={href} className={cn(link, "text-base")} onClick={closeMenu}>
                {label}
              </a>
            ))}
          {showDashboard && (
            <Link to="/dashboard" className={cn(link, "text-base")}>
              Dashboard
            </Link>
          )}
          {visitor && (
            <div className="mt-2 grid grid-cols-2 gap-3">
              <Button asChild variant="secondary">
                <Link to="/login" onClick={closeMenu}>
                  Log In
                </Link>
              </Button>
              <Button asChild>
                <Link to="/register" onClick={closeMenu}>
                  Get Started
                </Link>
              </Button>
            </div>
          )}
        </nav>
      )}
    </header>
  );
}

import { useAuth } from "@/features/auth/auth-context";
import { Features } from "@/features/marketing/features";
import { ForNonprofits } from "@/features/marketing/for-nonprofits";
import { Hero } from "@/features/marketing/hero";
import { useDocumentTitle } from "@/hooks/use-document-title";

export function Component() {
  useDocumentTitle(null);
  const { user } = useAuth();
  return (
    <>
      <Hero startPath={user ? "/dashboard" : "/register"} />
      <Features />
      <ForNonprofits />
      <footer className="border-t">
        <p className="mx-auto max-w-6xl px-4 py-8 text-muted-foreground text-sm sm:px-6">
          © {new Date().getFullYear()} Basalt. All rights reserved.
        </p>
      </footer>
    </>
  );
}

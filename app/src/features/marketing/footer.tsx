import { Link } from "react-router";
import { lazyExtra } from "@/components/lazy-part";
import type { Content } from "./queries";

// Only where an administrator wrote some.
const HtmlTemplate = lazyExtra(() => import("@/components/html-template").then(({ HtmlTemplate }) => HtmlTemplate));

interface FooterProps {
  content: Content | undefined;
  /** Only the copyright line: while loading, and where an administrator hides the rest. */
  bare: boolean;
}

export function Footer({ content, bare }: FooterProps) {
  return (
    <footer className="border-t">
      <div className="mx-auto max-w-6xl px-4 py-10 text-sm sm:px-6">
        {!bare && content && (content.title || content.description || content.htmlcontent) && (
          <div className="mb-8 max-w-2xl [overflow-wrap:anywhere]">
            {content.title && <p className="font-semibold">{content.title}</p>}
            {content.description && <p className="mt-1.5 text-muted-foreground">{content.description}</p>}
            {content.htmlcontent && <HtmlTemplate html={content.htmlcontent} values={{}} slots={{}} className="mt-3" />}
          </div>
        )}
        <div className="flex min-h-11 flex-wrap items-center justify-between gap-x-6 text-muted-foreground">
          <p>© {new Date().getFullYear()} Basalt. All rights reserved.</p>
          {!bare && (
            <nav aria-label="Legal" className="-mx-2 flex">
              <Link
                to="/terms"
                className="flex min-h-11 items-center rounded-md px-2 hover:text-foreground hover:underline"
              >
                Terms
              </Link>
              <Link
                to="/privacy"
                className="flex min-h-11 items-center rounded-md px-2 hover:text-foreground hover:underline"
              >
                Privacy
              </Link>
            </nav>
          )}
        </div>
      </div>
    </footer>
  );
}

import type { ReactNode } from "react";
import { useDocumentTitle } from "@/hooks/use-document-title";

interface PageHeadingProps {
  title: string;
  subtitle?: string;
  /** What a search engine says of it; the subtitle, if there is none. */
  description?: string;
  /** The page's main actions. */
  children?: ReactNode;
}

/** The one `h1` of a screen, and with it the title of the window. */
export function PageHeading({ title, subtitle, description, children }: PageHeadingProps) {
  useDocumentTitle(title, description ?? subtitle);
  return (
    <div className="mb-8 flex min-h-15 flex-wrap items-center justify-between gap-x-6 gap-y-4">
      <div>
        {/* Takes the focus after a navigation (root-layout.tsx) and when a closed dialog's opener is gone. */}
        <h1 tabIndex={-1} className="text-title">
          {title}
        </h1>
        {subtitle && <p className="mt-1.5 text-muted-foreground">{subtitle}</p>}
      </div>
      {children}
    </div>
  );
}

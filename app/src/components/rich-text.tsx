import DOMPurify from "dompurify";
import { useMemo } from "react";
import { cn } from "@/lib/cn";

// What the editor can produce, and links. No images, styles, forms or classes: a colleague's text
// must not load things from elsewhere, nor dress up as a part of the page.
const allowed = {
  ALLOWED_TAGS: ["p", "br", "strong", "b", "em", "i", "u", "s", "ul", "ol", "li", "a"],
  ALLOWED_ATTR: ["href"],
  ALLOWED_URI_REGEXP: /^(?:https?:|mailto:)/i,
};

/** The only place that renders stored HTML. */
export function RichText({ html, className }: { html: string; className?: string }) {
  const clean = useMemo(() => DOMPurify.sanitize(html, allowed), [html]);
  return (
    <div
      className={cn("rich-text", className)}
      // biome-ignore lint/security/noDangerouslySetInnerHtml: sanitised above, and nowhere else in the app
      dangerouslySetInnerHTML={{ __html: clean }}
    />
  );
}

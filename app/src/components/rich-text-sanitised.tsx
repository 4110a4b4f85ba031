import DOMPurify from "dompurify";
import { useMemo } from "react";
import { RichTextBlock } from "@/components/rich-text-block";

// What the editor can produce, and links. No images, styles, forms or classes: a colleague's text
// must not load things from elsewhere, nor dress up as a part of the page.
const allowed = {
  ALLOWED_TAGS: ["p", "br", "strong", "b", "em", "i", "u", "s", "ul", "ol", "li", "a"],
  ALLOWED_ATTR: ["href", "start"],
  ALLOWED_URI_REGEXP: /^(?:https?:|mailto:)/i,
};

export function RichTextSanitised({ html, className }: { html: string; className?: string | undefined }) {
  const cleanHtml = useMemo(() => DOMPurify.sanitize(html, allowed), [html]);
  return <RichTextBlock cleanHtml={cleanHtml} className={className} />;
}

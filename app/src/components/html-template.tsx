import DOMPurify from "dompurify";
import { type ReactNode, useLayoutEffect, useMemo, useRef, useState } from "react";
import { createPortal } from "react-dom";
import { cn } from "@/lib/cn";

// What an administrator may lay a section out with. No scripts, styles, forms or frames; images, since they may show
// the organisation's own.
const allowed = {
  ALLOWED_TAGS: [
    ..."p br hr strong b em i u s small sub sup ul ol li a div span section h2 h3 h4 h5 h6 blockquote img table".split(
      " ",
    ),
    ..."thead tbody tr th td figure figcaption dl dt dd".split(" "),
  ],
  ALLOWED_ATTR: ["href", "src", "alt", "title", "width", "height", "data-slot", "colspan", "rowspan"],
  ALLOWED_URI_REGEXP: /^(?:https?:|mailto:|\/(?!\/)|#)/i,
  RETURN_DOM_FRAGMENT: true as const,
};

interface HtmlTemplateProps {
  html: string;
  /** Words for `{{name}}`. */
  values: Record<string, string>;
  /** Elements for `{{name}}`. */
  slots: Record<string, ReactNode>;
  className?: string;
}

/** An administrator's HTML with placeholders, sanitised; nothing of a placeholder is taken for HTML. */
export function HtmlTemplate({ html, values, slots, className }: HtmlTemplateProps) {
  const holder = useRef<HTMLDivElement>(null);
  const [places, setPlaces] = useState<{ element: Element; name: string }[]>([]);
  const names = Object.keys(slots).join(" ");
  const valuesJson = JSON.stringify(values);

  const filled = useMemo(() => {
    const known: Record<string, string> = JSON.parse(valuesJson);
    return html.replace(/\{\{\s*(\w+)\s*\}\}/g, (placeholder, name: string) => {
      if (names.split(" ").includes(name)) return `<div data-slot="${name}"></div>`;
      return name in known ? escapeHtml(known[name] ?? "") : placeholder;
    });
  }, [html, names, valuesJson]);

  useLayoutEffect(() => {
    const content = DOMPurify.sanitize(filled, allowed);
    holder.current?.replaceChildren(content);
    const found = holder.current?.querySelectorAll("[data-slot]") ?? [];
    setPlaces([...found].map((element) => ({ element, name: element.getAttribute("data-slot") ?? "" })));
  }, [filled]);

  return (
    <>
      <div ref={holder} className={cn("html-template", className)} />
      {places.map(
        ({ element, name }) => element.isConnected && slots[name] && createPortal(slots[name], element, name),
      )}
    </>
  );
}

function escapeHtml(text: string) {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
}

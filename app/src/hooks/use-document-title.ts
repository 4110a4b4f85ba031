import { useEffect } from "react";

const product = "Basalt · Strategic Planning Made Simple";
const about = "Set goals, plan together and see progress: strategic planning for non-profit organizations.";

/** What the window, and a search engine, call this screen. `null` is the product's own page. */
export function useDocumentTitle(title: string | null, description = about) {
  useEffect(() => {
    document.title = title ? `${title} · Basalt` : product;
    document.querySelector('meta[name="description"]')?.setAttribute("content", description);
  }, [title, description]);
}

import { useEffect } from "react";

/** `null` is the product's own page. */
export function useDocumentTitle(title: string | null) {
  useEffect(() => {
    document.title = title ? `${title} · Basalt` : "Basalt · Strategic Planning Made Simple";
  }, [title]);
}

import { useEffect, useState } from "react";
import { lazyDialog } from "@/components/lazy-part";
import { findAsked } from "@/lib/find";

const CommandPalette = lazyDialog(() => import("./command-palette").then(({ CommandPalette }) => CommandPalette));

/** Opens the command palette by Ctrl or Cmd with K, and by `find`. */
export function Finder() {
  const [open, setOpen] = useState(false);
  useEffect(() => {
    const show = () => setOpen(true);
    const hear = (event: KeyboardEvent) => {
      if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey)) return;
      if (event.altKey || event.shiftKey) return;
      event.preventDefault();
      // A dialog may hold text that leaving would lose.
      if (!document.querySelector("[role=dialog], [role=alertdialog]")) show();
    };
    document.addEventListener("keydown", hear);
    window.addEventListener(findAsked, show);
    return () => {
      document.removeEventListener("keydown", hear);
      window.removeEventListener(findAsked, show);
    };
  }, []);
  return <CommandPalette open={open} onOpenChange={setOpen} />;
}

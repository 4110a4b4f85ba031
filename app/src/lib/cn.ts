import { type ClassValue, clsx } from "clsx";
import { extendTailwindMerge } from "tailwind-merge";

// The type scale's utilities are ours: untold, tailwind-merge takes `text-title` for a colour and
// drops it beside `text-foreground`.
const merge = extendTailwindMerge({
  extend: { classGroups: { "font-size": [{ text: ["hero", "title", "heading", "label"] }] } },
});

/** Joins class names; of two that set the same thing the later one holds. */
export function cn(...classes: ClassValue[]) {
  return merge(clsx(classes));
}

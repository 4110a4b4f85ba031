import { cn } from "@/lib/cn";

/** Renders what `RichText` has found clean, and nothing else may use it. */
export function RichTextBlock({ cleanHtml, className }: { cleanHtml: string; className?: string | undefined }) {
  return (
    <div
      dir="auto"
      className={cn("rich-text", className)}
      // biome-ignore lint/security/noDangerouslySetInnerHtml: clean, by its callers; nowhere else in the app
      dangerouslySetInnerHTML={{ __html: cleanHtml }}
    />
  );
}

import { lazy, Suspense } from "react";
import { RichTextBlock } from "@/components/rich-text-block";
import { Skeleton } from "@/components/ui/skeleton";

// Texts with anything but these tags, bare, wait for the sanitiser, which weighs more than the screen around them.
const bareTags = /^(?:[^<]|<\/?(?:p|strong|b|em|i|ul|ol|li)>|<br ?\/?>)*$/;

const Sanitised = lazy(() =>
  import("@/components/rich-text-sanitised").then(({ RichTextSanitised }) => ({ default: RichTextSanitised })),
);

interface RichTextProps {
  html: string;
  className?: string | undefined;
}

/** The only way to show stored HTML. */
export function RichText({ html, className }: RichTextProps) {
  // Words, and tags that have no attributes and do nothing: there is nothing to take out.
  if (bareTags.test(html)) return <RichTextBlock cleanHtml={html} className={className} />;
  return (
    <Suspense fallback={<Skeleton className="h-10" />}>
      <Sanitised html={html} className={className} />
    </Suspense>
  );
}

import { lazyExtra } from "@/components/lazy-part";
import { RichTextBlock } from "@/components/rich-text-block";
import { Skeleton } from "@/components/ui/skeleton";

// Texts with anything but these tags, bare, wait for the sanitiser, which weighs more than the screen around them.
const bareTags = /^(?:[^<]|<\/?(?:p|strong|b|em|i|ul|ol|li)>|<br ?\/?>)*$/;

const Sanitised = lazyExtra(
  () => import("@/components/rich-text-sanitised").then(({ RichTextSanitised }) => RichTextSanitised),
  <Skeleton className="h-10" />,
);

interface RichTextProps {
  html: string;
  className?: string | undefined;
}

/** The only way to show stored HTML. */
export function RichText({ html, className }: RichTextProps) {
  // Words, and tags that have no attributes and do nothing: there is nothing to take out.
  if (bareTags.test(html)) return <RichTextBlock cleanHtml={html} className={className} />;
  return <Sanitised html={html} className={className} />;
}

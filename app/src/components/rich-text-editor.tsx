import { fetchAhead, lazyPart } from "@/components/lazy-part";
import { Skeleton } from "@/components/ui/skeleton";

export interface RichTextEditorProps {
  /** HTML; "" for no text. */
  value: string;
  onChange: (html: string) => void;
  onBlur?: () => void;
  placeholder?: string;
  disabled?: boolean;
  // Of the form field around it.
  id?: string;
  "aria-invalid"?: boolean;
  "aria-describedby"?: string | undefined;
  "aria-required"?: boolean;
}

// A third of what a signed-in screen may weigh, and needed only where something is written.
const core = () => import("./rich-text-editor-core");

/** Where people write rich text: bold, italic and both kinds of list. */
export const RichTextEditor = lazyPart<RichTextEditorProps>(
  () => core().then(({ RichTextEditorCore }) => RichTextEditorCore),
  <Skeleton className="h-[25.3125rem] rounded-md md:h-[25.0625rem]" />,
);

/** Fetches the editor's code ahead of the dialog that needs it. */
export function preloadRichTextEditor() {
  fetchAhead(core);
}

import { ImageIcon } from "lucide-react";

/** Decoration: the organisation's name stands beside it. */
export function LogoPicture({ url, className }: { url: string | null; className: string }) {
  return url ? (
    <img src={url} alt="" className={`${className} shrink-0 rounded-md border bg-white object-contain`} />
  ) : (
    <span className={`${className} grid shrink-0 place-items-center rounded-md bg-muted text-muted-foreground`}>
      <ImageIcon className="size-2/5" aria-hidden />
    </span>
  );
}

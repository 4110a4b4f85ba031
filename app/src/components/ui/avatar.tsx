import { Avatar as Primitive } from "radix-ui";
import { cn } from "@/lib/cn";

interface AvatarProps {
  image?: string | undefined;
  initial: string;
  className?: string;
}

/** Decoration: the place that shows it names the person in words. */
export function Avatar({ image, initial, className }: AvatarProps) {
  return (
    <Primitive.Root
      aria-hidden
      className={cn(
        "inline-grid size-8 shrink-0 select-none place-items-center overflow-hidden rounded-full bg-primary-soft font-semibold text-primary-soft-foreground text-sm",
        className,
      )}
    >
      {image && <Primitive.Image src={image} alt="" referrerPolicy="no-referrer" className="size-full object-cover" />}
      <Primitive.Fallback>{initial}</Primitive.Fallback>
    </Primitive.Root>
  );
}

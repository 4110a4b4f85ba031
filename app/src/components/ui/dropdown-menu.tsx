import { EllipsisIcon } from "lucide-react";
import { DropdownMenu as Primitive } from "radix-ui";
import type { ComponentProps } from "react";
import { Button } from "@/components/ui/button";
import { cn } from "@/lib/cn";

/** Not modal: the rest of the page would be hidden from screen readers with the focusable things in it. */
export function DropdownMenu(props: Omit<ComponentProps<typeof Primitive.Root>, "modal">) {
  return <Primitive.Root {...props} modal={false} />;
}
export const DropdownMenuTrigger = Primitive.Trigger;

/**
 * Rendered in place, not at the end of the document: there it would lie outside every landmark of the page. It goes without fading: a click on
 * its button meanwhile would be one outside of it, and close what it had just opened.
 */
export function DropdownMenuContent({ className, sideOffset = 8, ...props }: ComponentProps<typeof Primitive.Content>) {
  return (
    <Primitive.Content
      data-slot="dropdown-menu"
      sideOffset={sideOffset}
      collisionPadding={8}
      className={cn(
        "z-50 max-h-(--radix-dropdown-menu-content-available-height) min-w-48 max-w-[calc(100vw-1rem)] overflow-y-auto rounded-lg border bg-surface-raised p-1 font-normal text-foreground shadow-raised data-[state=open]:animate-rise-in",
        className,
      )}
      {...props}
    />
  );
}

interface DropdownMenuItemProps extends ComponentProps<typeof Primitive.Item> {
  tone?: "neutral" | "destructive";
}

export function DropdownMenuItem({ className, tone = "neutral", ...props }: DropdownMenuItemProps) {
  return (
    <Primitive.Item
      className={cn(
        "flex min-h-11 select-none items-center gap-2.5 rounded-md px-2.5 py-1.5 text-sm outline-none data-[disabled]:opacity-50 data-[highlighted]:bg-muted md:min-h-9 [&_svg]:size-4 [&_svg]:shrink-0 [&_svg]:text-muted-foreground",
        tone === "destructive" && "text-destructive data-[highlighted]:bg-destructive-soft [&_svg]:text-destructive",
        className,
      )}
      {...props}
    />
  );
}

export function DropdownMenuLabel({ className, ...props }: ComponentProps<typeof Primitive.Label>) {
  return <Primitive.Label className={cn("px-2.5 py-2 text-sm", className)} {...props} />;
}

export function DropdownMenuSeparator() {
  return <Primitive.Separator className="-mx-1 my-1 h-px bg-border" />;
}

/** The three dots that open the actions of one thing. */
export function MoreButton({ label, ...props }: { label: string } & ComponentProps<typeof Button>) {
  return (
    <DropdownMenuTrigger asChild>
      <Button variant="ghost" size="icon" aria-label={label} {...props}>
        <EllipsisIcon aria-hidden />
      </Button>
    </DropdownMenuTrigger>
  );
}

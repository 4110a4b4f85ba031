import { cva, type VariantProps } from "class-variance-authority";
import { Slot } from "radix-ui";
import type { ComponentProps } from "react";
import { cn } from "@/lib/cn";

// On a phone every target is 44 px high.
const button = cva(
  "inline-flex shrink-0 select-none items-center justify-center gap-2 whitespace-nowrap rounded-md font-medium transition-colors duration-150 disabled:pointer-events-none disabled:opacity-55 aria-disabled:pointer-events-none aria-disabled:opacity-55 [&_svg]:pointer-events-none [&_svg]:size-4 [&_svg]:shrink-0",
  {
    variants: {
      variant: {
        primary: "bg-primary text-primary-foreground shadow-xs hover:bg-primary-hover",
        secondary: "border bg-surface-raised text-foreground shadow-xs hover:bg-muted",
        ghost: "text-foreground hover:bg-muted",
        destructive:
          "bg-destructive text-destructive-foreground shadow-xs hover:bg-destructive-hover focus-visible:outline-destructive",
        /** Leads to a question before it destroys anything. */
        danger:
          "border bg-surface-raised text-destructive shadow-xs hover:border-destructive hover:bg-destructive-soft focus-visible:outline-destructive",
      },
      size: {
        small: "h-11 px-3 text-sm md:h-8",
        medium: "h-11 px-4 text-sm md:h-10",
        large: "h-12 px-6 text-base",
        icon: "size-11 md:size-9",
      },
    },
    defaultVariants: { variant: "primary", size: "medium" },
  },
);

interface ButtonProps extends ComponentProps<"button">, VariantProps<typeof button> {
  /** Renders the child, a link say, with the looks of a button. */
  asChild?: boolean;
}

export function Button({ className, variant, size, asChild = false, type = "button", ...props }: ButtonProps) {
  const looks = cn(button({ variant, size }), className);
  // A link has no `type="button"`; as the child it brings its own attributes.
  if (asChild) return <Slot.Root data-slot="button" className={looks} {...props} />;
  return <button data-slot="button" type={type} className={looks} {...props} />;
}

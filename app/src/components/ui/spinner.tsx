import { LoaderCircleIcon } from "lucide-react";
import { cn } from "@/lib/cn";

/** Decoration only: what it stands beside says what is being waited for. */
export function Spinner({ className }: { className?: string }) {
  return <LoaderCircleIcon aria-hidden className={cn("size-4 animate-spin-slow", className)} />;
}

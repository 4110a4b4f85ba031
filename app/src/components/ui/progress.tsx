import { cn } from "@/lib/cn";

interface ProgressProps {
  /** 0 to 100; null where it is not known. */
  percent: number | null;
  /** What advances, for those who cannot see what the bar stands beside. */
  label: string;
  className?: string;
}

/** A bar that fills; amber when the goal is reached. */
export function Progress({ percent, label, className }: ProgressProps) {
  return (
    <div
      role="progressbar"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={100}
      aria-valuenow={percent ?? undefined}
      className={cn("h-1.5 overflow-hidden rounded-full bg-muted", className)}
    >
      <div
        className={cn(
          "h-full rounded-full",
          percent === null
            ? "w-1/3 animate-pass bg-primary motion-reduce:w-full motion-reduce:opacity-50"
            : "origin-left animate-grow transition-[width] duration-200 rtl:origin-right",
          percent !== null && (percent >= 100 ? "bg-accent" : "bg-primary"),
        )}
        style={percent === null ? undefined : { width: `${percent}%` }}
      />
    </div>
  );
}

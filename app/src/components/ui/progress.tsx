import { cn } from "@/lib/cn";

interface ProgressProps {
  /** 0 to 100. */
  percent: number;
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
      aria-valuenow={percent}
      className={cn("h-1.5 overflow-hidden rounded-full bg-muted", className)}
    >
      <div
        className={cn(
          "h-full origin-left animate-grow rounded-full transition-[width] duration-200 rtl:origin-right",
          percent >= 100 ? "bg-accent" : "bg-primary",
        )}
        style={{ width: `${percent}%` }}
      />
    </div>
  );
}

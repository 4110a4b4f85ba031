import { cn } from "@/lib/cn";

interface LogoProps {
  /** The sign without the word, 24 px. */
  compact?: boolean;
  className?: string;
}

/** Three hexagonal columns of basalt, growing. */
export function Logo({ compact = false, className }: LogoProps) {
  return (
    <span className={cn("inline-flex items-center gap-2.5", className)}>
      <svg viewBox="0 0 32 32" className={compact ? "size-6" : "size-8"} aria-hidden focusable="false">
        <rect width="32" height="32" rx="8" fill="#0f5c55" />
        <path fill="#9fd8cb" d="M6.3 16.4h4.4l2 2.3v6.8H4.3v-6.8z" />
        <path fill="#d5f0e8" d="M13.8 11.4h4.4l2 2.3v11.8h-8.4V13.7z" />
        <path fill="#f5b860" d="M21.3 5.4h4.4l2 2.3v17.8h-8.4V7.7z" />
        <path fill="#0f5c55" d="M12.1 13.5h.6v12h-.6zM19.6 7.5h.6v18h-.6z" opacity=".55" />
      </svg>
      {!compact && <span className="font-display font-semibold text-xl tracking-tight">Basalt</span>}
    </span>
  );
}

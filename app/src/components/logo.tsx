import { cn } from "@/lib/cn";

/** Three basalt columns, growing. */
export function Logo({ className }: { className?: string }) {
  return (
    <span className={cn("inline-flex items-center gap-2.5", className)}>
      <svg viewBox="0 0 32 32" className="size-8" aria-hidden focusable="false">
        <rect width="32" height="32" rx="8" fill="#0f5c55" />
        <path fill="#9fd8cb" d="M8.5 17.2 12 19.2v6.3H5v-6.3z" />
        <path fill="#d5f0e8" d="M16 11.2l3.5 2v12.3h-7V13.2z" />
        <path fill="#f5b860" d="M23.5 5.2l3.5 2v18.3h-7V7.2z" />
      </svg>
      <span className="font-display font-semibold text-xl tracking-tight">Basalt</span>
    </span>
  );
}

import type { ReactNode } from "react";
import { Badge } from "@/components/ui/badge";
import { Progress } from "@/components/ui/progress";
import type { PlanRole } from "@/lib/plan-role";
import { type Done, percentOf } from "@/lib/progress";

interface PlanBarProps {
  title: string;
  role: PlanRole | null;
  done: Done;
  /** Who is here. */
  presence?: ReactNode;
}

/** What of the plan's header stays in view under the site's header when the page is scrolled. */
export function PlanBar({ title, role, done, presence }: PlanBarProps) {
  const percent = percentOf(done);
  return (
    <div className="fixed inset-x-0 top-16 z-30 animate-fade-in border-b bg-background/85 backdrop-blur-md print:hidden">
      <div className="mx-auto flex h-11 max-w-6xl items-center gap-3 px-4 text-sm sm:px-6">
        <p dir="auto" className="min-w-0 grow truncate font-semibold">
          {title}
        </p>
        {presence}
        {role && (
          <Badge tone="primary" className="max-sm:hidden">
            You: {role}
          </Badge>
        )}
        <Progress percent={percent} label="Progress of the plan" className="w-16 shrink-0 sm:w-32" />
        <span className="w-9 shrink-0 text-end font-semibold tabular-nums">{percent}%</span>
      </div>
    </div>
  );
}

import { Skeleton } from "@/components/ui/skeleton";

export function PlanCardsSkeleton() {
  return (
    <div role="status" className="grid gap-5 md:grid-cols-3">
      <span className="sr-only">Loading plans...</span>
      {["first", "second", "third"].map((card) => (
        <div key={card} className="grid h-96 content-start gap-4 rounded-xl border bg-surface-raised p-6 shadow-card">
          <Skeleton className="h-5 w-1/2" />
          <Skeleton className="h-4 w-4/5" />
          <Skeleton className="mt-2 h-10 w-2/5" />
          <Skeleton className="mt-3 h-4 w-3/4" />
          <Skeleton className="h-4 w-2/3" />
          <Skeleton className="h-4 w-3/5" />
        </div>
      ))}
    </div>
  );
}

import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { ConfirmDialog } from "@/components/confirm-dialog";
import { DeletedEntry } from "@/components/deleted-entry";
import { Card } from "@/components/ui/card";
import { Collapsible, CollapsibleContent, CollapsibleTrigger } from "@/components/ui/collapsible";
import { formatDay } from "@/lib/dates";
import { useDeletePlanForGood, useRestorePlan } from "./mutations";
import { deletedPlansQuery } from "./queries";

/** The bin: what the person deleted in the last 30 days. Nothing while it is empty. */
export function DeletedPlans() {
  const { data: plans = [] } = useQuery(deletedPlansQuery());
  const restore = useRestorePlan();
  const remove = useDeletePlanForGood();
  const [subject, setSubject] = useState<(typeof plans)[number] | null>(null);
  const [deleting, setDeleting] = useState(false);
  if (plans.length === 0 && !subject) return null;
  return (
    <section aria-label="Recently deleted plans" className="mt-8">
      {plans.length > 0 && (
        <Collapsible>
          <CollapsibleTrigger className="min-h-11 font-medium text-muted-foreground text-sm">
            Recently deleted ({plans.length})
          </CollapsibleTrigger>
          <CollapsibleContent>
            <Card className="mt-2">
              <ul className="divide-y px-4">
                {plans.map((plan) => (
                  <DeletedEntry
                    key={plan.id}
                    title={plan.title}
                    restoring={restore.isPending && restore.variables === plan.id}
                    disabled={restore.isPending}
                    onRestore={() => restore.mutate(plan.id)}
                    onDeleteForGood={() => {
                      setSubject(plan);
                      setDeleting(true);
                    }}
                  >
                    <p className="text-muted-foreground text-sm">
                      Deleted {formatDay(plan.deleted_at)}. Kept until {formatDay(plan.deleted_for_good_at)}.
                    </p>
                  </DeletedEntry>
                ))}
              </ul>
            </Card>
          </CollapsibleContent>
        </Collapsible>
      )}
      {subject && (
        <ConfirmDialog
          open={deleting}
          onOpenChange={setDeleting}
          title="Delete for Good"
          description={`Are you sure you want to delete “${subject.title}” with its files for good? This action cannot be undone.`}
          confirmLabel="Delete for Good"
          busyLabel="Deleting..."
          onConfirm={() => remove.mutateAsync(subject.id)}
        />
      )}
    </section>
  );
}

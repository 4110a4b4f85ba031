import { useQuery } from "@tanstack/react-query";
import { Trash2Icon } from "lucide-react";
import { useState } from "react";
import { ConfirmDialog } from "@/components/confirm-dialog";
import { SubmitButton } from "@/components/submit-button";
import { Button } from "@/components/ui/button";
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
              <ul className="divide-y">
                {plans.map((plan) => {
                  const busy = restore.isPending && restore.variables === plan.id;
                  return (
                    <li key={plan.id} className="flex flex-wrap items-center justify-between gap-x-4 gap-y-2 px-4 py-3">
                      <div className="min-w-0 grow basis-64">
                        <p dir="auto" className="font-medium [overflow-wrap:anywhere]">
                          {plan.title}
                        </p>
                        <p className="text-muted-foreground text-sm">
                          Deleted {formatDay(plan.deleted_at)}. Kept until {formatDay(plan.deleted_for_good_at)}.
                        </p>
                      </div>
                      <div className="flex flex-wrap gap-2">
                        <SubmitButton
                          type="button"
                          variant="secondary"
                          size="small"
                          busy={busy}
                          busyLabel="Restoring..."
                          disabled={restore.isPending}
                          aria-label={`Restore ${plan.title}`}
                          onClick={() => restore.mutate(plan.id)}
                        >
                          Restore
                        </SubmitButton>
                        <Button
                          variant="ghost"
                          size="small"
                          className="text-destructive"
                          aria-label={`Delete for good: ${plan.title}`}
                          onClick={() => {
                            setSubject(plan);
                            setDeleting(true);
                          }}
                        >
                          <Trash2Icon aria-hidden />
                          Delete for good
                        </Button>
                      </div>
                    </li>
                  );
                })}
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

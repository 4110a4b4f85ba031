import { useIsFetching, useQueryClient } from "@tanstack/react-query";
import { RefreshCwIcon } from "lucide-react";
import { PageHeading } from "@/components/page-heading";
import { SubmitButton } from "@/components/submit-button";
import { Configuration } from "./configuration";
import { Events } from "./events";
import { eventsKey } from "./queries";

export function WebhookManagement() {
  const queryClient = useQueryClient();
  const busy = useIsFetching({ queryKey: eventsKey }) > 0;
  return (
    <>
      <PageHeading
        title="Webhook Management"
        subtitle="What the payment provider tells this site, and what became of it"
      >
        <SubmitButton
          type="button"
          variant="secondary"
          busy={busy}
          busyLabel="Refreshing..."
          disabled={busy}
          onClick={() => void queryClient.invalidateQueries({ queryKey: eventsKey })}
        >
          <RefreshCwIcon aria-hidden />
          Refresh
        </SubmitButton>
      </PageHeading>
      <div className="grid gap-6">
        <Configuration />
        <Events />
      </div>
    </>
  );
}

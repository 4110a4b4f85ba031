import { Button } from "@/components/ui/button";
import { Dialog, DialogClose, DialogContent } from "@/components/ui/dialog";
import { DialogBody, DialogFooter } from "@/components/ui/dialog-panel";
import type { WebhookEvent } from "./queries";

interface EventDetailsProps {
  open: boolean;
  onOpenChange: (open: boolean) => void;
  event: WebhookEvent;
}

export function EventDetails({ open, onOpenChange, event }: EventDetailsProps) {
  const facts = [
    ["ID", event.id],
    ["Type", event.event_type],
    ["Status", event.status],
    ["Processed At", event.processed_at ? new Date(event.processed_at).toLocaleString() : "Not processed"],
    ...(event.error_message ? [["Error Message", event.error_message] as const] : []),
  ] as const;
  return (
    <Dialog open={open} onOpenChange={onOpenChange}>
      <DialogContent size="wide" title="Webhook Event Details" description="As it came, and what became of it.">
        {/* Nothing in it takes the focus, so the keyboard scrolls the body itself. */}
        <DialogBody tabIndex={0} role="group" aria-label="Details" className="grid content-start gap-5">
          <dl className="grid gap-x-4 gap-y-2 text-sm [overflow-wrap:anywhere] sm:grid-cols-[8rem_1fr]">
            {facts.map(([name, value]) => (
              <div key={name} className="contents">
                <dt className="text-muted-foreground">{name}</dt>
                <dd>{value}</dd>
              </div>
            ))}
          </dl>
          <section aria-labelledby="event-payload" className="grid gap-2">
            <h3 id="event-payload" className="font-medium text-sm">
              Payload
            </h3>
            <pre className="overflow-x-auto whitespace-pre-wrap rounded-md bg-muted p-3 font-mono text-xs leading-relaxed [overflow-wrap:anywhere]">
              {JSON.stringify(event.payload, null, 2)}
            </pre>
          </section>
        </DialogBody>
        <DialogFooter>
          <DialogClose asChild>
            <Button variant="secondary">Close</Button>
          </DialogClose>
        </DialogFooter>
      </DialogContent>
    </Dialog>
  );
}

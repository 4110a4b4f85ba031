import type { ReactNode } from "react";
import { Button } from "@/components/ui/button";
import { Dialog, DialogClose, DialogContent } from "@/components/ui/dialog";
import { DialogBody, DialogFooter } from "@/components/ui/dialog-panel";

interface SetupInstructionsProps {
  open: boolean;
  onOpenChange: (open: boolean) => void;
  url: string;
}

export function SetupInstructions({ open, onOpenChange, url }: SetupInstructionsProps) {
  return (
    <Dialog open={open} onOpenChange={onOpenChange}>
      <DialogContent
        size="wide"
        title="Manual Setup Instructions"
        description="Three steps connect the payment provider with this site for good."
      >
        <DialogBody>
          <ol className="grid gap-6 text-sm">
            <Step number={1} title="Get the secret">
              <div>
                In the Stripe dashboard open Developers, then Webhooks, and add an endpoint with this address:
                <Code>{url}</Code>
                Then reveal the endpoint's signing secret and copy it. It begins with whsec_.
              </div>
            </Step>
            <Step number={2} title="Set it in the backend">
              <div>
                Give the server the secret under the name STRIPE_WEBHOOK_SECRET, in its environment or in basalt.toml,
                and restart it:
                <Code>{'[stripe]\nwebhook_secret = "whsec_…"'}</Code>
              </div>
            </Step>
            <Step number={3} title="Test it">
              <div>
                Send a test webhook from the Stripe dashboard, for example the event{" "}
                <code className="font-mono text-xs">checkout.session.completed</code>, and check the events table of
                this page: it appears within seconds.
              </div>
            </Step>
          </ol>
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

function Step({ number, title, children }: { number: number; title: string; children: ReactNode }) {
  return (
    <li className="flex gap-3.5">
      <span
        aria-hidden
        className="grid size-7 shrink-0 place-items-center rounded-full bg-primary-soft font-semibold text-primary-soft-foreground"
      >
        {number}
      </span>
      <div className="grid min-w-0 gap-1">
        <h3 className="text-label">{title}</h3>
        <div className="text-muted-foreground">{children}</div>
      </div>
    </li>
  );
}

function Code({ children }: { children: string }) {
  return (
    <code className="my-2 block whitespace-pre-wrap rounded-md bg-muted px-3 py-2 font-mono text-foreground text-xs [overflow-wrap:anywhere]">
      {children}
    </code>
  );
}

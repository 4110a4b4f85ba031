import { CreditCardIcon, LayersIcon, RotateCwIcon } from "lucide-react";
import { type ReactNode, useState } from "react";
import { ColumnsChart } from "@/components/columns-chart";
import { ConfirmDialog } from "@/components/confirm-dialog";
import { PageState } from "@/components/page-state";
import { Alert } from "@/components/ui/alert";
import { Badge } from "@/components/ui/badge";
import { Button } from "@/components/ui/button";
import { Card } from "@/components/ui/card";
import { Spinner } from "@/components/ui/spinner";
import { formatBillingDate } from "@/lib/dates";
import { messageOf } from "@/lib/errors";
import { toast } from "@/lib/toast";
import { cancelSubscription, openBillingPortal, reactivateSubscription } from "./calls";
import { ChoosePlanDialog } from "./choose-plan-dialog";

interface Subscription {
  subscription_id: string;
  plan_name: string;
  status: string;
  current_period_end: string | null;
  cancel_at_period_end: boolean;
  plan_features: string[];
}

interface SubscriptionPageProps {
  subscription: Subscription | null;
  /** Fetches it again; rejects when that fails. */
  onRefresh: () => Promise<unknown>;
}

const statuses: Record<string, { label: string; tone: "success" | "info" | "warning" | "destructive" | "neutral" }> = {
  active: { label: "Active", tone: "success" },
  trialing: { label: "Trial", tone: "info" },
  incomplete: { label: "Incomplete", tone: "warning" },
  past_due: { label: "Past due", tone: "destructive" },
  canceled: { label: "Canceled", tone: "neutral" },
};

type Busy = "portal" | "reactivate" | "refresh" | null;

export function SubscriptionPage({ subscription, onRefresh }: SubscriptionPageProps) {
  const [choosing, setChoosing] = useState(false);
  const [canceling, setCanceling] = useState(false);
  const [busy, setBusy] = useState<Busy>(null);

  async function run(name: Busy, failed: string, work: () => Promise<unknown>) {
    setBusy(name);
    try {
      await work();
    } catch (error) {
      toast.error(failed, { description: messageOf(error) === failed ? undefined : messageOf(error) });
    } finally {
      setBusy(null);
    }
  }

  const refresh = () =>
    run("refresh", "Failed to refresh subscription information.", async () => {
      await onRefresh();
      toast.success("Subscription Refreshed", { description: "This is how it stands now." });
    });
  // What was changed is changed, also when it cannot be shown at once.
  const showChange = () => onRefresh().catch(() => undefined);

  return (
    <>
      {subscription ? (
        <Current
          subscription={subscription}
          busy={busy}
          onBilling={() => void run("portal", "Failed to create customer portal session", openBillingPortal)}
          onCancel={() => setCanceling(true)}
          onReactivate={() =>
            void run("reactivate", "Failed to reactivate subscription", async () => {
              await reactivateSubscription(subscription.subscription_id);
              await showChange();
              toast.success("Subscription Reactivated", { description: "It goes on as before." });
            })
          }
          onChangePlan={() => setChoosing(true)}
        />
      ) : (
        <Card>
          <PageState
            art={<ColumnsChart columns={examplePlans} goals={false} className="h-28" />}
            title="No subscription yet"
            description="Choose a plan for your organization. You can change or cancel it whenever you like."
          >
            <Button onClick={() => setChoosing(true)}>View Plans</Button>
          </PageState>
        </Card>
      )}
      <div className="mt-5">
        <Button variant="ghost" disabled={busy !== null} aria-busy={busy === "refresh"} onClick={() => void refresh()}>
          {busy === "refresh" ? <Spinner /> : <RotateCwIcon aria-hidden />}
          Refresh Data
        </Button>
      </div>

      <ChoosePlanDialog
        open={choosing}
        onOpenChange={setChoosing}
        signedIn
        currentPlanName={subscription && subscription.status !== "canceled" ? subscription.plan_name : null}
      />
      {subscription && (
        <ConfirmDialog
          open={canceling}
          onOpenChange={setCanceling}
          title="Cancel Subscription"
          description={
            subscription.current_period_end
              ? `You keep access until ${formatBillingDate(subscription.current_period_end)}. After that your plans stay, and you can subscribe again.`
              : "You keep access until the end of the billing period. After that your plans stay, and you can subscribe again."
          }
          cancelLabel="Keep Subscription"
          confirmLabel="Cancel Subscription"
          busyLabel="Canceling..."
          onConfirm={async () => {
            try {
              await cancelSubscription(subscription.subscription_id);
            } catch (error) {
              const message = messageOf(error);
              const failed = "Failed to cancel subscription";
              toast.error(failed, { description: message === failed ? undefined : message });
              throw error;
            }
            await showChange();
            toast.success("Subscription Canceled", {
              description: "Your access continues until the end of the billing period.",
            });
          }}
        />
      )}
    </>
  );
}

// Three plans, three heights.
const examplePlans = [
  { key: "one", percent: 35 },
  { key: "two", percent: 60 },
  { key: "three", percent: 90 },
];

interface CurrentProps {
  subscription: Subscription;
  busy: Busy;
  onBilling: () => void;
  onCancel: () => void;
  onReactivate: () => void;
  onChangePlan: () => void;
}

function Current({ subscription, busy, onBilling, onCancel, onReactivate, onChangePlan }: CurrentProps) {
  const { plan_name, status, cancel_at_period_end: ending, current_period_end: end, plan_features } = subscription;
  const { label, tone } = statuses[status] ?? { label: status, tone: "neutral" };
  const incomplete = status === "incomplete";
  const over = status === "canceled";
  return (
    <div className="grid items-start gap-5 lg:grid-cols-[1.6fr_1fr]">
      <Card className="grid gap-6 p-5 sm:p-6">
        <div className="flex flex-wrap items-start justify-between gap-3">
          <div className="min-w-0">
            <h2 className="text-muted-foreground text-sm">Current subscription</h2>
            <p className="mt-1 font-display text-2xl leading-tight tracking-tight [overflow-wrap:anywhere]">
              {plan_name}
            </p>
          </div>
          <div className="flex flex-wrap gap-2">
            <Badge tone={tone}>{label}</Badge>
            {ending && !over && <Badge tone="warning">Cancels at period end</Badge>}
          </div>
        </div>
        {incomplete && (
          <Alert tone="warning" title="Your payment is not complete">
            <p>
              Finish it on the card provider's page, or choose a plan again. Until then this subscription is not active.
            </p>
          </Alert>
        )}
        {status === "past_due" && (
          <Alert tone="destructive" title="Your last payment failed">
            <p>Open Billing Settings and give a card that works, so that you keep your plan.</p>
          </Alert>
        )}
        {over ? (
          <p>This subscription has ended. Choose a plan to subscribe again.</p>
        ) : (
          end && (
            <p>
              {ending ? "Your subscription will end on " : "Next billing date: "}
              <strong className="font-semibold">{formatBillingDate(end)}</strong>
            </p>
          )
        )}
        {plan_features.length > 0 && (
          <ul className="grid gap-2 border-t pt-5 text-sm sm:grid-cols-2">
            {plan_features.map((feature) => (
              <li key={feature} className="flex min-w-0 gap-2.5 [overflow-wrap:anywhere]">
                <span aria-hidden className="mt-2 size-1.5 shrink-0 rounded-full bg-primary" />
                {feature}
              </li>
            ))}
          </ul>
        )}
        {!incomplete && (
          <div className="flex flex-wrap gap-3 border-t pt-5">
            {ending && !over ? (
              <Button disabled={busy !== null} aria-busy={busy === "reactivate"} onClick={onReactivate}>
                {busy === "reactivate" && <Spinner />}
                Reactivate Subscription
              </Button>
            ) : (
              <Button variant="danger" disabled={over || busy !== null} onClick={onCancel}>
                Cancel Subscription
              </Button>
            )}
          </div>
        )}
      </Card>
      <div className="grid gap-5">
        <SideCard icon={<CreditCardIcon />} title="Billing" text="Cards, invoices and the address on them.">
          <Button
            variant="secondary"
            className="w-full"
            disabled={incomplete || busy !== null}
            aria-busy={busy === "portal"}
            onClick={onBilling}
          >
            {busy === "portal" && <Spinner />}
            {busy === "portal" ? "Processing..." : "Billing Settings"}
          </Button>
        </SideCard>
        <SideCard
          icon={<LayersIcon />}
          title="Change Plan"
          text="See what else there is, and switch when you outgrow this."
        >
          <Button variant="secondary" className="w-full" disabled={busy !== null} onClick={onChangePlan}>
            View Plans
          </Button>
        </SideCard>
      </div>
    </div>
  );
}

function SideCard({
  icon,
  title,
  text,
  children,
}: {
  icon: ReactNode;
  title: string;
  text: string;
  children: ReactNode;
}) {
  return (
    <Card className="grid gap-4 p-5">
      <div className="flex gap-3">
        <span aria-hidden className="mt-0.5 text-primary [&_svg]:size-5">
          {icon}
        </span>
        <div>
          <h2 className="text-label">{title}</h2>
          <p className="mt-0.5 text-muted-foreground text-sm">{text}</p>
        </div>
      </div>
      {children}
    </Card>
  );
}

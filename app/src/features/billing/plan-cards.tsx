import { CheckIcon } from "lucide-react";
import { useId } from "react";
import { Badge } from "@/components/ui/badge";
import { Button } from "@/components/ui/button";
import { Spinner } from "@/components/ui/spinner";
import { cn } from "@/lib/cn";
import { formatPrice } from "@/lib/money";
import type { PlanForSale } from "./queries";

interface PlanCardsProps {
  plans: PlanForSale[];
  /** What the buttons say. */
  chooseLabel: string;
  /** The name of the plan that the person has. */
  currentPlanName: string | null;
  /** The price for which the card provider's page is being fetched. */
  busyPriceId: string | null;
  onChoose: (plan: PlanForSale) => void;
  /** One level below the heading that they stand under. */
  heading?: "h2" | "h3";
}

/** What can be bought. Of three, the one in the middle stands out. */
export function PlanCards({
  plans,
  chooseLabel,
  currentPlanName,
  busyPriceId,
  onChoose,
  heading = "h3",
}: PlanCardsProps) {
  const paid = plans.filter(({ isFree }) => !isFree);
  const emphasised = paid.length === 3 ? paid[1]?.id : undefined;
  return (
    <ul
      className={cn(
        "grid gap-5",
        plans.length === 1 && "mx-auto max-w-sm",
        plans.length === 2 && "mx-auto max-w-3xl md:grid-cols-2",
        plans.length > 2 && "md:grid-cols-3",
      )}
    >
      {plans.map((plan) => (
        <PlanCard
          key={plan.id}
          plan={plan}
          heading={heading}
          emphasised={plan.id === emphasised}
          isCurrent={plan.name === currentPlanName}
          chooseLabel={plan.isFree ? "Start Free" : chooseLabel}
          busy={busyPriceId === plan.stripe_price_id}
          disabled={busyPriceId !== null}
          onChoose={() => onChoose(plan)}
        />
      ))}
    </ul>
  );
}

interface PlanCardProps {
  plan: PlanForSale;
  heading: "h2" | "h3";
  emphasised: boolean;
  isCurrent: boolean;
  chooseLabel: string;
  busy: boolean;
  disabled: boolean;
  onChoose: () => void;
}

function PlanCard({
  plan,
  heading: Heading,
  emphasised,
  isCurrent,
  chooseLabel,
  busy,
  disabled,
  onChoose,
}: PlanCardProps) {
  const nameId = useId();
  return (
    <li
      aria-labelledby={nameId}
      className={cn(
        "flex min-w-0 flex-col rounded-xl border bg-surface-raised p-6 shadow-card [overflow-wrap:anywhere]",
        emphasised && "border-primary shadow-raised ring-1 ring-primary",
      )}
    >
      <div className="flex flex-wrap items-start justify-between gap-2">
        <Heading id={nameId} className="line-clamp-3 min-w-0 text-label" title={plan.name}>
          {plan.name}
        </Heading>
        {isCurrent ? <Badge tone="success">Your plan</Badge> : emphasised && <Badge tone="primary">Recommended</Badge>}
      </div>
      {plan.description && <p className="mt-1.5 line-clamp-5 text-muted-foreground text-sm">{plan.description}</p>}
      <p className="mt-5 flex items-baseline gap-1.5">
        <span className="font-display text-[2.5rem] leading-none tracking-tight tabular-nums">
          {formatPrice(plan.price)}
        </span>
        <span className="text-muted-foreground text-sm">/{plan.interval}</span>
      </p>
      {plan.limits.length > 0 && (
        <ul aria-label="Included" className="mt-6 grid gap-1.5 font-medium text-sm">
          {plan.limits.map((limit) => (
            <li key={limit}>{limit}</li>
          ))}
        </ul>
      )}
      {plan.features.length > 0 && (
        <ul className="mt-6 grid gap-2.5 text-sm">
          {plan.features.map((feature) => (
            <li key={feature} className="flex gap-2.5">
              <CheckIcon className="mt-0.5 size-4 shrink-0 text-primary" strokeWidth={2.5} aria-hidden />
              <span className="min-w-0">{feature}</span>
            </li>
          ))}
        </ul>
      )}
      <div className="mt-auto pt-7">
        <Button
          variant={emphasised && !isCurrent ? "primary" : "secondary"}
          className="w-full"
          aria-describedby={nameId}
          aria-busy={busy}
          disabled={isCurrent || disabled}
          onClick={onChoose}
        >
          {busy && <Spinner />}
          {isCurrent ? "Current Plan" : busy ? "Processing..." : chooseLabel}
        </Button>
      </div>
    </li>
  );
}

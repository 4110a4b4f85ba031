import { useQuery } from "@tanstack/react-query";
import { Link } from "react-router";
import { lazyPart } from "@/components/lazy-part";
import { Button } from "@/components/ui/button";
import { useLivePublicRows } from "@/hooks/use-live-public-rows";
import { toast } from "@/lib/toast";
import { PlanCards } from "./plan-cards";
import { PlanCardsSkeleton } from "./plan-cards-skeleton";
import { plansForSaleKey, plansForSaleQuery } from "./queries";
import { useChoosePlan } from "./use-choose-plan";

// Only where an administrator wrote one.
const HtmlTemplate = lazyPart(
  () => import("@/components/html-template").then(({ HtmlTemplate }) => HtmlTemplate),
  <PlanCardsSkeleton />,
);

interface PricingSectionProps {
  content:
    | { title: string | null; subtitle: string | null; description: string | null; htmlcontent: string | null }
    | undefined;
  person: { id: string; email: string | undefined } | null;
  /** The name of the plan that the person has. */
  currentPlanName: string | null;
  /** `h1` where this is the whole page. */
  heading?: "h1" | "h2";
}

export function PricingSection({ content, person, currentPlanName, heading: Heading = "h2" }: PricingSectionProps) {
  const cards = <Cards person={person} currentPlanName={currentPlanName} heading={Heading === "h1" ? "h2" : "h3"} />;
  useLivePublicRows("subscription_plans", plansForSaleKey);
  return (
    <section id="pricing" aria-labelledby="pricing-title" className="border-t bg-surface">
      <div className="mx-auto max-w-6xl px-4 py-20 sm:px-6 sm:py-24">
        <div className="mx-auto max-w-2xl text-center [overflow-wrap:anywhere]">
          <Heading id="pricing-title" tabIndex={Heading === "h1" ? -1 : undefined} className="text-title">
            {content?.title || "Choose Your Plan"}
          </Heading>
          <p className="mt-4 text-pretty text-lg text-muted-foreground">
            {content?.subtitle ||
              content?.description ||
              "One price for the whole organization. Cancel whenever you like."}
          </p>
          {content?.subtitle && content.description && (
            <p className="mt-3 text-pretty text-muted-foreground">{content.description}</p>
          )}
        </div>
        <div className="mt-14">
          {content?.htmlcontent ? (
            <HtmlTemplate
              html={content.htmlcontent}
              values={{ userID: person?.id ?? "", userEmail: person?.email ?? "" }}
              slots={{ pricingCards: cards }}
            />
          ) : (
            cards
          )}
        </div>
        {person && currentPlanName && (
          <div className="mt-10 text-center">
            <Button asChild variant="secondary">
              <Link to="/dashboard/subscription">Manage Subscription</Link>
            </Button>
          </div>
        )}
      </div>
    </section>
  );
}

interface CardsProps extends Pick<PricingSectionProps, "person" | "currentPlanName"> {
  heading: "h2" | "h3";
}

function Cards({ person, currentPlanName, heading }: CardsProps) {
  const plans = useQuery(plansForSaleQuery());
  const { busyPriceId, choose } = useChoosePlan({
    signedIn: person !== null,
    onError: (message) => toast.error("Checkout Error", { description: message }),
  });

  if (plans.isPending) return <PlanCardsSkeleton />;
  // As the specification has it, a list that could not be fetched is an empty one.
  if (!plans.data || plans.data.length === 0) {
    return (
      <div className="mx-auto grid max-w-md justify-items-center gap-6 rounded-xl border border-dashed px-6 py-12 text-center">
        <p className="text-muted-foreground">No subscription plans available at the moment.</p>
        <Button asChild>
          <Link to={person ? "/dashboard" : "/register"}>Get Started</Link>
        </Button>
      </div>
    );
  }
  return (
    <PlanCards
      plans={plans.data}
      heading={heading}
      chooseLabel={person ? "Subscribe" : "Sign Up & Subscribe"}
      currentPlanName={currentPlanName}
      busyPriceId={busyPriceId}
      onChoose={(plan) => void choose(plan)}
    />
  );
}

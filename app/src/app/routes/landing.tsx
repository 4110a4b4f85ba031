import { useQuery } from "@tanstack/react-query";
import { preload } from "react-dom";
import { lazyPart } from "@/components/lazy-part";
import { Skeleton } from "@/components/ui/skeleton";
import { Spinner } from "@/components/ui/spinner";
import { useAuth } from "@/features/auth/auth-context";
import { currentPlanName, isSubscribed } from "@/features/auth/subscription";
import { PlanCardsSkeleton } from "@/features/billing/plan-cards-skeleton";
import { Features } from "@/features/marketing/features";
import { Footer } from "@/features/marketing/footer";
import { ForNonprofits } from "@/features/marketing/for-nonprofits";
import { Hero } from "@/features/marketing/hero";
import { heroPicture } from "@/features/marketing/hero-picture";
import { marketingKey, marketingQuery } from "@/features/marketing/queries";
import { useDocumentTitle } from "@/hooks/use-document-title";
import { useLivePublicRows } from "@/hooks/use-live-public-rows";
import { useNear } from "@/hooks/use-near";
import { currentTheme } from "@/lib/theme";
import { useCanceledToast } from "../use-canceled-toast";

// Far below the first screen.
const PricingSection = lazyPart(
  () => import("@/features/billing/pricing-section").then(({ PricingSection }) => PricingSection),
  <PricingPlace />,
);

export function Component() {
  useDocumentTitle(null);
  useCanceledToast("/");
  const { place, near } = useNear();
  const { user, subscription } = useAuth();
  // A failure shows the app's own words.
  const { data: content = {}, isPending } = useQuery(marketingQuery());
  useLivePublicRows("marketing_content", marketingKey);
  const { hero, features, nonprofits, pricing, footer } = content;
  // Beside the texts rather than after them.
  if (!hero?.imageurl) preload(heroPicture[currentTheme()], { as: "image" });

  const showPricing =
    pricing?.visible !== false && !(pricing?.hide_for_subscribed && user && isSubscribed(subscription));
  const bareFooter = isPending || footer?.visible === false || Boolean(footer?.hide_for_subscribed && user);
  return (
    <>
      {isPending ? (
        <Waiting className="min-h-[85dvh]" />
      ) : (
        hero?.visible !== false && <Hero content={hero} startPath={user ? "/dashboard" : "/register"} />
      )}
      {features?.visible !== false && <Features content={features} />}
      {isPending ? (
        <Waiting className="min-h-96" />
      ) : (
        nonprofits?.visible !== false && <ForNonprofits content={nonprofits} />
      )}
      {showPricing && (
        <div ref={place}>
          {near ? (
            <PricingSection
              content={pricing}
              person={user && { id: user.id, email: user.email }}
              currentPlanName={currentPlanName(subscription)}
            />
          ) : (
            <PricingPlace />
          )}
        </div>
      )}
      <Footer content={footer} bare={bareFooter} />
    </>
  );
}

function Waiting({ className }: { className: string }) {
  return (
    <div role="status" className={`grid place-items-center ${className}`}>
      <Spinner className="size-7 animate-late text-primary" />
      <span className="sr-only">Loading...</span>
    </div>
  );
}

/** Where the prices will be: the link to them works before they are there. */
function PricingPlace() {
  return (
    <div id="pricing" aria-hidden className="min-h-[50rem] border-t bg-surface px-4 py-20 sm:px-6 sm:py-24">
      <Skeleton className="mx-auto h-10 max-w-sm" />
      <div className="mx-auto mt-14 max-w-6xl">
        <PlanCardsSkeleton />
      </div>
    </div>
  );
}

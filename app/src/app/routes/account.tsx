import { Outlet } from "react-router";
import { ColumnsChart } from "@/components/columns-chart";

// An organisation on its way: the last summit is still a plan.
const rising = [18, 34, 52, 71, 92, 0].map((percent, index) => ({ key: String(index), percent }));

/** What the screens around an account share: a word about the product beside the form, where there is room. */
export function Component() {
  return (
    <div className="mx-auto grid max-w-6xl items-center gap-16 px-4 py-8 sm:px-6 sm:py-14 lg:min-h-[calc(100dvh-4rem)] lg:grid-cols-[1fr_26rem]">
      <div className="hidden lg:block">
        <ColumnsChart columns={rising} className="h-64" />
        <p className="mt-10 max-w-md text-title">Strategic planning your whole organization can stand on.</p>
        <p className="mt-4 max-w-md text-lg text-muted-foreground">
          One place for your goals, the people behind them, and the progress you make.
        </p>
      </div>
      <div className="mx-auto w-full max-w-md">
        <Outlet />
      </div>
    </div>
  );
}

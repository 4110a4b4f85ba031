import { Outlet, useLocation, useNavigate } from "react-router";
import { ColumnsArt } from "@/components/columns-art";
import { PageHeading } from "@/components/page-heading";
import { Card } from "@/components/ui/card";
import { Tabs, TabsContent, TabsList, TabsTrigger } from "@/components/ui/tabs";

const screens = {
  "/login": { tab: "Log In", title: "Welcome back", subtitle: "Log in to your organization's plans." },
  "/register": { tab: "Sign Up", title: "Create your account", subtitle: "Start planning in a minute." },
};
type Path = keyof typeof screens;
const paths: Path[] = ["/login", "/register"];

/** Both doors to an account, as two tabs of one screen. */
export function Component() {
  const location = useLocation();
  const navigate = useNavigate();
  const path: Path = location.pathname.startsWith("/register") ? "/register" : "/login";
  const { title, subtitle } = screens[path];

  // Replaced, so that "back" leaves the screen; the focus stays on the tab.
  const open = (next: string) =>
    void navigate(next, { replace: true, state: { ...toObject(location.state), keepFocus: true } });

  return (
    <div className="mx-auto grid max-w-6xl items-center gap-16 px-4 py-8 sm:px-6 sm:py-14 lg:min-h-[calc(100dvh-4rem)] lg:grid-cols-[1fr_26rem]">
      <div className="hidden lg:block">
        <ColumnsArt className="h-80" />
        <p className="mt-10 max-w-md text-title">Strategic planning your whole organization can stand on.</p>
        <p className="mt-4 max-w-md text-lg text-muted-foreground">
          One place for your goals, the people behind them, and the progress you make.
        </p>
      </div>
      <div className="mx-auto w-full max-w-md">
        <PageHeading title={title} subtitle={subtitle} />
        <Card className="p-5 sm:p-7">
          <Tabs value={path} onValueChange={open} activationMode="manual">
            <TabsList aria-label="Log in or sign up" className="mb-6">
              {paths.map((value) => (
                <TabsTrigger key={value} value={value}>
                  {screens[value].tab}
                </TabsTrigger>
              ))}
            </TabsList>
            {paths.map((value) => (
              <TabsContent key={value} value={value} tabIndex={-1} className="outline-none">
                <Outlet />
              </TabsContent>
            ))}
          </Tabs>
        </Card>
      </div>
    </div>
  );
}

function toObject(state: unknown) {
  return state && typeof state === "object" ? state : {};
}

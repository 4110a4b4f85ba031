import { Outlet, useLocation, useNavigate } from "react-router";
import { PageHeading } from "@/components/page-heading";
import { Card } from "@/components/ui/card";
import { Tabs, TabsContent, TabsList, TabsTrigger } from "@/components/ui/tabs";
import { OtherSignIns } from "@/features/auth/other-sign-ins";
import { invitedHeading, invitedIn } from "@/lib/invited";
import { returnPath } from "../visitor-guard";

const screens = {
  "/login": { tab: "Log In", title: "Welcome back", subtitle: "Log in to your organization's plans." },
  "/register": { tab: "Sign Up", title: "Create your account", subtitle: "Start planning in a minute." },
};
type Path = keyof typeof screens;
const paths: Path[] = ["/login", "/register"];

const invitedSubtitles: Record<Path, string> = {
  "/login": "Log in with the invited address to accept.",
  "/register": "Create your account to accept.",
};

/** Log-in and sign-up, as two tabs of one screen. */
export function Component() {
  const location = useLocation();
  const navigate = useNavigate();
  const path: Path = location.pathname.startsWith("/register") ? "/register" : "/login";
  const invited = invitedIn(location.state);
  const { title, subtitle } = invited
    ? { title: invitedHeading(invited), subtitle: invitedSubtitles[path] }
    : screens[path];

  // Replaced, so that "back" leaves the screen; the focus stays on the tab.
  const open = (next: string) =>
    void navigate(next, { replace: true, state: { ...toObject(location.state), keepFocus: true } });

  return (
    <>
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
        <OtherSignIns returnTo={invited?.path ?? returnPath(location.state)} forLogin={path === "/login"} />
      </Card>
    </>
  );
}

function toObject(state: unknown) {
  return state && typeof state === "object" ? state : {};
}

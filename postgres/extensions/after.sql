do $$
begin
  if current_setting('role') <> current_setting('basalt.role') then
    perform pg_catalog.set_config('role', current_setting('basalt.role'), true);
  end if;
end $$;

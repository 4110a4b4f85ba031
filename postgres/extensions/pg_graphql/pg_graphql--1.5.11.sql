-- The schemas of pg_graphql. Projects list `graphql_public` in `[api] schemas`; a query gets an error in GraphQL's form.

do $$
begin
  if to_regnamespace('graphql') is null then
    create schema graphql;
  end if;
  if to_regnamespace('graphql_public') is null then
    create schema graphql_public;
  end if;
end $$;

create function graphql.resolve(
  query text, variables jsonb default '{}', "operationName" text default null, extensions jsonb default null
) returns jsonb
language sql immutable as $$
  select '{"errors": [{"message": "GraphQL is not available on this server; use the REST API"}]}'::jsonb
$$;

create function graphql_public.graphql(
  "operationName" text default null, query text default null, variables jsonb default null, extensions jsonb default null
) returns jsonb
language sql immutable as $$
  select graphql.resolve(query, variables, "operationName", extensions)
$$;

grant usage on schema graphql, graphql_public to postgres, anon, authenticated, service_role;

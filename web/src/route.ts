/** Routes behind the `#`, as `#/decisions/17?node=a`: the page may lie under any prefix. */

export interface Route {
  view: string;
  item: string | null;
  query: URLSearchParams;
}

export function parse(hash: string): Route {
  const [path = '', search = ''] = hash.replace(/^#\/?/, '').split('?', 2);
  const [view = '', ...rest] = path.split('/');
  return {
    view: view || 'cluster',
    item: rest.length ? decodeURIComponent(rest.join('/')) : null,
    query: new URLSearchParams(search),
  };
}

export const href = (view: string, item?: string | number | null) =>
  item == null ? `#/${view}` : `#/${view}/${encodeURIComponent(item)}`;

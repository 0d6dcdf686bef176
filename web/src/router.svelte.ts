/** The route that is open. */
import { href, parse } from './route';

class Router {
  route = $state.raw(parse(location.hash));
  constructor() {
    addEventListener('hashchange', () => (this.route = parse(location.hash)));
  }
}
export const router = new Router();

export const go = (view: string, item?: string | number | null) => void (location.hash = href(view, item));
export { href };

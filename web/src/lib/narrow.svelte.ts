/** Whether the window is as narrow as a phone's. */

const media = matchMedia('(max-width: 46rem)');

class Narrow {
  now = $state(media.matches);
  constructor() {
    media.addEventListener('change', ({ matches }) => (this.now = matches));
  }
}
export const narrow = new Narrow();

// Several names in one parameter of the URL, and words for metrics.

const SEPARATOR = ';';

/** Names as one text; `;` and `%` in a name are kept apart from those between. */
export const join = (names) => names.map((name) =>
  name.replace(/[%;]/g, encodeURIComponent)).join(SEPARATOR);

/** The names of `join`. */
export const split = (text) => (text || '').split(SEPARATOR).filter(Boolean)
    .map((name) => name.replace(/%25|%3B/gi, decodeURIComponent));

const MOST = 100; // characters of a file's name

/** A name for an exported file: of `parts`, the last says what it shows, and is whole. */
export function fileName(parts, ending) {
  const plain = (text) => text.replace(/[^\w.-]+/g, '_');
  const end = `${plain(parts.at(-1))}.${ending}`;
  const begin = plain(parts.slice(0, -1).join('-')).slice(0, Math.max(MOST - end.length, 20));
  return begin ? `${begin}-${end}` : end;
}

const TITLES = {
  'eval/success': 'Held-out success',
  'eval_small/success': 'Held-out success, small panel',
  'rollout/success': 'Success in training',
  'rollout/return_mean': 'Return',
  'rollout/turns_mean': 'Turns of an episode',
  'rollout/episode_tokens_mean': 'Tokens of an episode',
  'policy/approx_kl': 'KL of the update',
  'policy/kl_ref': 'KL to the reference',
  'policy/clip_fraction': 'Clipped tokens',
  'policy/entropy': 'Entropy',
  'policy/loss': 'Loss',
  'policy/heldout_loss': 'Held-out loss',
  'preference/accuracy': 'Preference accuracy',
  'preference/margin': 'Preference margin',
  'sampler/logprob_abs_diff_mean': 'Log-probability difference',
  'train/grad_norm': 'Gradient norm',
  'filter/share': 'Episodes kept',
};
const UNITS = {
  'eval/success': 'share of tasks, 95% interval',
  'eval_small/success': 'share of tasks, 95% interval',
  'rollout/success': 'share of episodes',
  'rollout/return_mean': 'mean of an episode',
  'rollout/turns_mean': 'mean',
  'rollout/episode_tokens_mean': 'mean',
  'policy/approx_kl': 'nats a token',
  'policy/kl_ref': 'nats a token',
  'policy/clip_fraction': 'share of tokens',
  'policy/entropy': 'nats a token',
  'sampler/logprob_abs_diff_mean': 'sampler to trainer, nats a token',
};

/** Success on the panel of one environment of a mixture, or on a kind of task. */
export const MEMBER = /^eval\/([^/]+)\/success$/;

/** A metric in words; its own name where there are none. */
export function title(metric) {
  const [stem, name] = metric.includes(':') ?
    metric.split(/:(.*)/s) : ['', metric];
  const part = name.match(MEMBER);
  const words = TITLES[name] || (part ? `${TITLES['eval/success']}: ${part[1]}` : name);
  return stem ? `${words} (${stem === 'warmstart' ? 'warm start' : stem})` : words;
}

/** The unit of a metric; '' where it is not known. */
export const unit = (metric) => UNITS[metric] ||
  (MEMBER.test(metric) && 'share of tasks') ||
  (metric.endsWith('_s') ? 'seconds' : '');

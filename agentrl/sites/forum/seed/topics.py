"""The forums' topics: what people there write about."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Topic:
  """A forum and the words of its submissions.

  Attributes:
    forum: its name.
    title: of the forum.
    about: its description.
    things: singular nouns, which take an article.
    tasks: infinitives without `to`.
    kinds: adjectives that fit the things.
    size: weight among the forums.
    photos: whether most submissions are links to a picture.
  """

  forum: str
  title: str
  about: str
  things: tuple[str, ...]
  tasks: tuple[str, ...]
  kinds: tuple[str, ...]
  size: int = 3
  photos: bool = False


def _topic(
    forum: str,
    title: str,
    about: str,
    things: str,
    tasks: str,
    kinds: str,
    size: int = 3,
    photos: bool = False,
) -> Topic:
  return Topic(
      forum,
      title,
      about,
      tuple(things.split('; ')),
      tuple(tasks.split('; ')),
      tuple(kinds.split('; ')),
      size,
      photos,
  )


TOPICS = (
    _topic(
        'books', 'Books', 'Novels, memoirs and whatever lies on your nightstand.',
        'ghost story; travel memoir; family saga; detective series; book club; '
        'library card; reading log; short story collection; sea novel; satire',
        'finish a long series; keep a reading log; read before sleeping; '
        'start a book club; sort a crowded shelf; read more poetry',
        'short; slow; forgotten; translated; quiet; thick', 6,
    ),
    _topic(
        'movies', 'Movies', 'Films old and new, in cinemas and at home.',
        'heist film; silent film; courtroom drama; sequel; soundtrack; '
        'road movie; director\'s cut; film festival; matinee; closing scene',
        'watch a film without the phone; explain a plot twist; '
        'pick a film for six people; rate what I watch; sit through the credits',
        'slow; low-budget; underrated; restored; foreign; long', 5,
    ),
    _topic(
        'television', 'Television', 'Series, seasons and the episodes in between.',
        'pilot episode; season finale; cooking show; miniseries; sitcom; '
        'crime series; cliffhanger; laugh track; spin-off; opening theme',
        'catch up before the finale; avoid spoilers; drop a series; '
        'agree on a show as a couple; remember all the names',
        'slow; British; cancelled; animated; underrated; long', 3,
    ),
    _topic(
        'music', 'Music', 'Records, concerts and everything you hear.',
        'debut album; live record; drum solo; choir; vinyl reissue; '
        'support act; encore; playlist; bass line; headline show',
        'discover new bands; protect my ears at shows; store old records; '
        'learn to sing harmony; listen to whole albums',
        'loud; acoustic; forgotten; remastered; quiet; independent', 4,
    ),
    _topic(
        'guitars', 'Guitars', 'Playing, buying and repairing guitars.',
        'tube amplifier; twelve-string; pedal board; capo; nylon string; '
        'fret job; practice amp; tuning peg; slide; pickup',
        'learn barre chords; change strings quickly; record at home; '
        'practise with a metronome; set up the action; memorise scales',
        'second-hand; acoustic; vintage; left-handed; cheap; hollow', 3,
    ),
    _topic(
        'headphones', 'Headphones', 'Everything that goes on or in your ears.',
        'pair of earbuds; planar headphone; headphone amp; carrying case; '
        'ear pad; balanced cable; closed-back headphone; equaliser; dongle',
        'compare headphones fairly; reduce noise on trains; wash ear pads; '
        'stop a cable from tangling; find a good fit',
        'wireless; open-back; folding; light; wired; second-hand', 3,
    ),
    _topic(
        'gaming', 'Gaming', 'Video games on every machine.',
        'boss fight; side quest; save file; farming game; tutorial; '
        'roguelike; co-op campaign; map editor; puzzle game; speed run',
        'finish my backlog; play with small children; quit a grind; '
        'find every secret; stream on a slow line; stay calm in ranked games',
        'short; difficult; cosy; forgotten; turn-based; free', 6,
    ),
    _topic(
        'consoles', 'Consoles', 'Game consoles: which to buy and how to keep them.',
        'handheld; controller; memory card; docking station; cartridge; '
        'disc drive; retro console; charging stand; thumb stick',
        'choose between two consoles; clean a dusty console; '
        'move saves to a new console; repair stick drift; share games at home',
        'portable; second-hand; limited; quiet; refurbished; old', 3,
    ),
    _topic(
        'boardgames', 'Board games', 'Cardboard, dice and the people around them.',
        'deck builder; dice tower; party game; expansion; rule book; '
        'cooperative game; worker placement game; score pad; card sleeve',
        'teach a heavy game; host a game night; store expansions; '
        'play with two people; lose gracefully; make a wooden insert',
        'short; heavy; abstract; travel-size; out-of-print; funny', 4,
    ),
    _topic(
        'cooking', 'Cooking', 'Dinner, lunch and the pans they are made in.',
        'cast-iron pan; lentil soup; chef\'s knife; spice rack; stew; '
        'pressure cooker; cutting board; stock pot; curry; salad dressing',
        'cook for one person; season a pan; freeze leftovers; '
        'chop onions faster; keep herbs fresh; plan a week of meals',
        'simple; spicy; one-pot; smoky; cheap; traditional', 5,
    ),
    _topic(
        'baking', 'Baking', 'Bread, cakes and everything from the oven.',
        'sourdough starter; rye loaf; pie crust; proofing basket; layer cake; '
        'cinnamon roll; bread knife; baking stone; meringue; brioche',
        'get an open crumb; bake at altitude; keep a starter alive; '
        'knead by hand; score a loaf; bake without eggs',
        'crusty; soft; wholemeal; sweet; flat; golden', 4,
    ),
    _topic(
        'coffee', 'Coffee', 'Beans, grinders and the morning cup.',
        'hand grinder; moka pot; milk frother; espresso machine; pour-over; '
        'scale; paper filter; travel mug; light roast; gooseneck kettle',
        'dial in a new bag; descale a machine; cut down on caffeine; '
        'make iced coffee; froth oat milk; store beans',
        'cheap; manual; compact; bitter; loud; second-hand', 3,
    ),
    _topic(
        'vegetarian', 'Vegetarian', 'Meat-free food and how to live on it.',
        'bean burger; tofu press; vegetable curry; meal plan; chickpea stew; '
        'nut roast; lunch box; mushroom pie; seed mix',
        'get enough iron; cook for meat eaters; order on the road; '
        'press tofu; use up a big cabbage',
        'quick; filling; spicy; crunchy; cheap; frozen', 2,
    ),
    _topic(
        'gardening', 'Gardening', 'Beds, balconies and greenhouses.',
        'raised bed; compost heap; tomato plant; rain barrel; seed tray; '
        'greenhouse; rose bush; watering can; herb spiral; hedge',
        'keep slugs away; prune a rose; save seeds; water during holidays; '
        'start tomatoes indoors; mulch a bed',
        'small; shady; wild; neglected; sunny; raised', 4,
    ),
    _topic(
        'DIY', 'Do it yourself', 'Repairs and home projects with your own hands.',
        'workbench; drywall patch; door hinge; tiled shower; shelf bracket; '
        'floor lamp; drill press; fence post; kitchen drawer; gutter',
        'hang a heavy mirror; sand a floor; fix a dripping tap; '
        'insulate an attic; paint a ceiling; level a table',
        'wobbly; cheap; old; hidden; squeaky; custom', 6,
    ),
    _topic(
        'woodworking', 'Woodworking', 'Saws, planes and sawdust.',
        'dovetail joint; hand plane; cherry board; glue-up; router table; '
        'oil finish; mallet; step stool; band saw; jewellery box',
        'sharpen a chisel; flatten a board; cut a clean mitre; '
        'dry green wood; build without a planer',
        'rough; dusty; curved; antique; tiny; oak', 3,
    ),
    _topic(
        'knitting', 'Knitting', 'Yarn, needles and patient people.',
        'cable sweater; sock pattern; stitch marker; wool blanket; shawl; '
        'yarn bowl; circular needle; mitten; gauge swatch',
        'fix a dropped stitch; block a shawl; knit on trains; '
        'use up leftovers; read a chart',
        'chunky; striped; itchy; hand-dyed; half-finished; soft', 2,
    ),
    _topic(
        'painting', 'Painting', 'Watercolour, oil, acrylic and the mess they make.',
        'watercolour set; portrait; still life; easel; sketchbook; '
        'landscape study; palette knife; canvas; colour wheel',
        'mix a natural green; clean oil brushes; paint outdoors; '
        'varnish a canvas; loosen up my strokes',
        'tiny; bright; unfinished; loose; cheap; muted', 2,
    ),
    _topic(
        'photography', 'Photography', 'Cameras, lenses and light.',
        'prime lens; tripod; film camera; lens cap; photo book; '
        'light meter; camera strap; contact sheet; flash; viewfinder',
        'shoot in fog; back up my pictures; scan old negatives; '
        'photograph strangers politely; price a wedding',
        'sharp; vintage; cheap; compact; heavy; weather-sealed', 4,
    ),
    _topic(
        'pics', 'Pictures', 'Photographs worth a second look.',
        'lighthouse; market hall; ferry; tram; harbour crane; '
        'street musician; water tower; bakery window; bridge; fairground',
        'photograph a moving train; wait for the right light',
        'snowy; misty; deserted; crowded; golden; rusty', 6, True,
    ),
    _topic(
        'landscapes', 'Landscapes', 'Pictures of mountains, coasts and plains.',
        'glacier; sea cliff; canyon; pine forest; salt flat; '
        'waterfall; mountain hut; sand dune; meadow; fjord',
        'hike with a tripod; expose for snow',
        'misty; frozen; sunlit; windswept; remote; green', 3, True,
    ),
    _topic(
        'cats', 'Cats', 'Our cats and what they did today.',
        'scratching post; window perch; tabby; kitten; cat flap; '
        'cardboard box; food puzzle; senior cat; litter box; fur brush',
        'trim claws; introduce two cats; stop early meowing; '
        'give a pill; travel with a cat',
        'shy; grumpy; rescued; fluffy; one-eyed; noisy', 4,
    ),
    _topic(
        'dogs', 'Dogs', 'Puppies, walks and training.',
        'harness; puppy class; rescue dog; long leash; chew toy; '
        'dog bed; whistle; agility course; muddy walk; vet visit',
        'teach recall; walk two dogs; stop pulling; clean muddy paws; '
        'leave a dog alone; crate-train a puppy',
        'nervous; stubborn; young; giant; elderly; muddy', 4,
    ),
    _topic(
        'aquariums', 'Aquariums', 'Freshwater and reef tanks.',
        'shrimp tank; sponge filter; driftwood piece; water test; snail; '
        'planted tank; quarantine tank; air pump; betta; moss wall',
        'cycle a new tank; fight algae; move a tank; feed during holidays; '
        'plant a carpet',
        'cloudy; tiny; planted; silent; leaky; heated', 2,
    ),
    _topic(
        'birdwatching', 'Birdwatching', 'Birds, binoculars and early mornings.',
        'woodpecker; nest box; field guide; spotting scope; owl pellet; '
        'feeder; kingfisher; bird hide; heron; swift colony',
        'tell warblers apart; keep squirrels off a feeder; record bird song; '
        'count gulls; build a nest box',
        'rare; noisy; migrating; shy; injured; early', 2,
    ),
    _topic(
        'hiking', 'Hiking', 'Trails, boots and long days outside.',
        'day pack; trail map; pair of boots; ridge walk; water filter; '
        'trekking pole; rain jacket; mountain hut; loop trail; summit register',
        'avoid blisters; hike with children; cross a stream; pack lighter; '
        'start before dawn; read a contour map',
        'steep; muddy; lightweight; lonely; exposed; marked', 4,
    ),
    _topic(
        'cycling', 'Cycling', 'Commuters, racers and tourers.',
        'gravel bike; bike lock; cargo bike; saddle; chain tool; '
        'pannier; tubeless tyre; commute; helmet light; brake pad',
        'commute in the rain; true a wheel; climb without suffering; '
        'store a bike in a flat; stop a squeaking brake',
        'folding; steel; electric; rusty; fast; second-hand', 4,
    ),
    _topic(
        'running', 'Running', 'From the first mile to the marathon.',
        'half marathon; pair of shoes; training plan; foam roller; trail race; '
        'rest day; heart-rate strap; parkrun; running vest; tempo run',
        'run in the heat; come back after an injury; breathe through hills; '
        'eat before a race; keep an easy pace',
        'slow; flat; hilly; early; cheap; long', 4,
    ),
    _topic(
        'travel', 'Travel', 'Where to go and how to get there.',
        'night train; hostel; rail pass; packing list; ferry crossing; '
        'layover; guided tour; guest house; border crossing; city card',
        'pack for two climates; travel with a toddler; sleep on trains; '
        'avoid tourist traps; learn ten words of a language',
        'cheap; remote; overbooked; quiet; scenic; rainy', 4,
    ),
    _topic(
        'languages', 'Language learning', 'Learning to speak like the others.',
        'vocabulary app; tandem partner; grammar book; false friend; accent; '
        'phrase book; flash card; subtitle track; intermediate plateau',
        'remember genders; practise speaking alone; read a first novel; '
        'keep two languages apart; understand fast speech',
        'romance; rare; tonal; free; boring; intensive', 3,
    ),
    _topic(
        'personalfinance', 'Personal finance', 'Budgets, savings and debts.',
        'emergency fund; budget sheet; pension plan; credit report; mortgage; '
        'index fund; car loan; joint account; tax refund; rent increase',
        'save on groceries; split bills fairly; pay off a loan early; '
        'plan for an irregular income; talk about money',
        'small; hidden; monthly; unexpected; fixed; shared', 4,
    ),
    _topic(
        'jobs', 'Jobs', 'Applications, interviews and working life.',
        'cover letter; phone interview; job offer; notice period; night shift; '
        'reference letter; probation period; remote job; portfolio; pay rise',
        'explain a gap; ask for a raise; resign politely; '
        'prepare for a panel; decline an offer',
        'temporary; dream; part-time; stressful; remote; junior', 3,
    ),
    _topic(
        'relationship_advice', 'Relationship advice',
        'Couples, families and friends: ask, and be kind.',
        'anniversary; shared flat; jealous friend; family dinner; apology; '
        'wedding guest list; long-distance call; silent treatment; first date',
        'apologise after a row; meet the parents; split the chores; '
        'stay friends after a break-up; talk about moving in',
        'awkward; forgotten; honest; difficult; second; late', 4,
    ),
    _topic(
        'space', 'Space', 'Rockets, planets and telescopes.',
        'moon lander; space station; comet; launch window; star chart; '
        'radio telescope; meteor shower; crater; weather satellite; rover',
        'see a meteor shower; choose a first telescope; find dark skies; '
        'photograph the moon; follow a launch',
        'distant; reusable; faint; icy; cancelled; tiny', 4,
    ),
    _topic(
        'history', 'History', 'The past, with sources.',
        'Roman road; trade guild; castle kitchen; plague year; city wall; '
        'shipwreck; old map; harvest record; postal route; forged letter',
        'date an old photograph; read old handwriting; search an archive; '
        'trace a family name; preserve old letters',
        'medieval; forgotten; forged; ancient; industrial; local', 3,
    ),
    _topic(
        'math', 'Mathematics', 'Proofs, puzzles and problems.',
        'magic square; proof by induction; prime gap; knot; tiling; '
        'topology course; chalkboard; paradox; number puzzle; geometry problem',
        'read a proof; prepare for an olympiad; teach fractions; '
        'visualise four dimensions; learn linear algebra',
        'elegant; open; elementary; wrong; visual; short', 2,
    ),
    _topic(
        'programming', 'Programming', 'Writing code and living with it.',
        'code review; unit test; compiler warning; side project; parser; '
        'memory leak; type checker; legacy module; text editor; regex',
        'name variables; review a large change; learn a second language; '
        'debug a race condition; write good commit messages',
        'tiny; functional; legacy; flaky; clean; undocumented', 5,
    ),
    _topic(
        'MachineLearning', 'Machine learning', 'Models, data and experiments.',
        'language model; data set; learning rate; ablation study; tokenizer; '
        'reward model; benchmark; graphics card; overfit; preprint',
        'clean noisy labels; train on one card; reproduce a paper; '
        'choose a batch size; explain a model to a doctor',
        'small; open; noisy; sparse; pretrained; cheap', 5,
    ),
    _topic(
        'homeautomation', 'Home automation', 'Lamps, locks and sensors that talk.',
        'smart plug; motion sensor; door lock; thermostat; light switch; '
        'voice assistant; water leak sensor; hub; blind motor; doorbell',
        'automate blinds; keep devices offline; wake up with light; '
        'measure power use; secure a camera',
        'local; wireless; unreliable; cheap; silent; battery-powered', 3,
    ),
    _topic(
        'Showerthoughts', 'Shower thoughts', 'Small ideas from under the shower.',
        'spare key; elevator; left sock; umbrella; alarm clock; '
        'traffic light; echo; shadow; birthday candle; doorbell',
        'forget a name; wait for a bus; share an umbrella; '
        'whisper in a library; count sheep',
        'lost; borrowed; silent; invisible; lucky; old', 4,
    ),
    _topic(
        'lakewood', 'City of Lakewood', 'News and talk of a small city by a lake.',
        'farmers market; bus line; town hall meeting; playground; street fair; '
        'library branch; ferry pier; snow plough; parking rule; bike lane',
        'renew a parking permit; find a dentist; get rid of bulky waste; '
        'swim in the lake; join the volunteer fire brigade',
        'closed; crowded; new; noisy; renovated; local', 4,
    ),
)  # fmt: skip

"""The shop's categories, and what its products are called and made of."""

import dataclasses
from collections.abc import Sequence


@dataclasses.dataclass(frozen=True)
class Leaf:
  """A category that holds products.

  Attributes:
    name: of the category.
    kinds: nouns for its products, singular.
    low: price from, in dollars.
    high: price to.
    options: names of what a buyer has to choose.
    measure: an attribute that counts: its name, its unit, and its values.
    in_name: whether the measure stands in products' names.
  """

  name: str
  kinds: Sequence[str]
  low: int
  high: int
  options: Sequence[str] = ()
  measure: tuple[str, str, Sequence[int]] | None = None
  in_name: bool = False


@dataclasses.dataclass(frozen=True)
class Group:
  """A category of the middle level.

  Attributes:
    name: of the category.
    leaves: the categories in it.
    materials: that its products are made of, or hold.
    uses: whom or what they are recommended for.
  """

  name: str
  leaves: Sequence[Leaf]
  materials: Sequence[str]
  uses: Sequence[str]


@dataclasses.dataclass(frozen=True)
class Department:
  """A category at the top.

  Attributes:
    name: of the category.
    groups: the categories in it.
    brands: of its products.
  """

  name: str
  groups: Sequence[Group]
  brands: Sequence[str]


_PACKS = ('Pack', 'count', (3, 4, 6, 8, 10, 12, 16, 18, 20, 24, 30))

DEPARTMENTS = (
    Department(
        'Beauty & Personal Care',
        (
            Group('Skin Care', (
                Leaf('Face Creams', ('Day Cream', 'Night Cream'), 8, 70,
                     ('Scent',), ('Volume', 'ml', (30, 50, 75, 100))),
                Leaf('Cleansers', ('Face Wash', 'Cleansing Oil'), 5, 40, (),
                     ('Volume', 'ml', (100, 150, 200, 250, 400))),
            ), (
                'aloe', 'green clay', 'almond oil', 'oat extract',
                'sea minerals',
            ), (
                'sensitive skin', 'dry climates', 'teenagers', 'oily skin',
                'tired eyes', 'frequent travellers',
            )),
            Group('Hair Care', (
                Leaf('Shampoos', ('Shampoo', 'Dry Shampoo'), 4, 35, ('Scent',),
                     ('Volume', 'ml', (200, 250, 300, 400, 500))),
                Leaf('Hair Brushes', ('Detangling Brush', 'Round Brush'), 4,
                     45),
            ), (
                'argan oil', 'boar bristles', 'rice protein', 'nettle extract',
                'soft nylon',
            ), (
                'curly hair', 'thin hair', 'coloured hair', 'swimmers',
                'long hair', 'dry scalps',
            )),
            Group('Oral Care', (
                Leaf('Toothpastes', ('Toothpaste', 'Whitening Gel'), 3, 60, (),
                     _PACKS, True),
                Leaf('Mouth Guards', ('Night Guard', 'Sports Mouth Guard'), 7,
                     90, (), _PACKS, True),
            ), (
                'mint oil', 'medical silicone', 'sea salt', 'soft resin',
                'charcoal',
            ), (
                'people who grind their teeth', 'sensitive gums',
                'coffee drinkers', 'boxers', 'children with braces',
                'heavy snorers',
            )),
        ),
        ('Velmora', 'Ostrelle', 'Pure Tern', 'Calidane', 'Brightwick',
         'Halcyra', 'Sunfallow', 'Miravelle'),
    ),
    Department(
        'Clothing & Bags',
        (
            Group('Women', (
                Leaf('Dresses', ('Summer Dress', 'Wrap Dress', 'Shirt Dress'),
                     22, 160, ('Size', 'Colour')),
                Leaf('Sweaters', ('Cardigan', 'Turtleneck Sweater'), 25, 140,
                     ('Size', 'Colour')),
                Leaf("Women's Sneakers", ('Running Sneaker', 'Canvas Sneaker'),
                     30, 150, ('Shoe Size', 'Colour')),
            ), (
                'organic cotton', 'linen', 'merino wool', 'recycled polyester',
                'viscose',
            ), (
                'summer weddings', 'cold offices', 'tall people', 'long walks',
                'garden parties', 'city breaks',
            )),
            Group('Men', (
                Leaf('Shirts', ('Oxford Shirt', 'Flannel Shirt', 'Polo Shirt'),
                     18, 95, ('Size', 'Colour')),
                Leaf('Boots', ('Chukka Boot', 'Hiking Boot'), 55, 240,
                     ('Shoe Size', 'Colour')),
            ), (
                'organic cotton', 'brushed flannel', 'waxed canvas', 'suede',
                'recycled polyester',
            ), (
                'long commutes', 'rainy cities', 'tall people',
                'job interviews', 'workshop days', 'mountain huts',
            )),
            Group('Bags', (
                Leaf('Backpacks', ('Laptop Backpack', 'Travel Backpack'), 28,
                     190, ('Colour',),
                     ('Capacity', 'litres', (12, 15, 18, 22, 26, 30, 40))),
            ), (
                'waxed canvas', 'recycled nylon', 'cork', 'felt', 'corduroy',
            ), (
                'long commutes', 'weekend trips', 'photographers',
                'school days', 'cyclists', 'people with a bad back',
            )),
        ),
        ('Fennick & Daughters', 'Arlowe', 'Tidebrook', 'Casa Merla', 'Northgap',
         'Ravelin', 'Old Quarry', 'Lumen Thread'),
    ),
    Department(
        'Electronics',
        (
            Group('Audio', (
                Leaf('Headphones',
                     ('Wireless Headphones', 'Wired Headphones', 'Earbuds'),
                     15, 330, ('Colour',),
                     ('Battery Life', 'hours', (6, 8, 12, 20, 24, 30, 40, 50))),
                Leaf('Bluetooth Speakers',
                     ('Bluetooth Speaker', 'Shower Speaker'), 18, 260,
                     ('Colour',),
                     ('Battery Life', 'hours', (5, 8, 10, 12, 16, 20, 24))),
            ), (
                'brushed aluminium', 'soft silicone', 'recycled plastic',
                'memory foam', 'woven fabric',
            ), (
                'long flights', 'open-plan offices', 'runners',
                'light sleepers', 'beach days', 'small kitchens',
            )),
            Group('Computer Accessories', (
                Leaf('Keyboards', ('Mechanical Keyboard', 'Compact Keyboard'),
                     20, 210, (), ('Keys', 'keys', (61, 68, 75, 84, 87, 104))),
                Leaf('Memory Cards', ('Memory Card', 'USB Stick'), 6, 180, (),
                     ('Storage', 'GB', (16, 32, 64, 128, 256, 512)), True),
            ), (
                'anodised aluminium', 'recycled plastic', 'carbon fibre',
                'ceramic', 'braided nylon',
            ), (
                'night shifts', 'students', 'small hands', 'film makers',
                'people who type all day', 'shared desks',
            )),
            Group('Phone Accessories', (
                Leaf('Phone Cases', ('Phone Case', 'Wallet Case'), 6, 55,
                     ('Colour',)),
                Leaf('Screen Protectors',
                     ('Screen Protector', 'Privacy Screen Protector'), 5, 35,
                     (), ('Pack', 'count', (1, 2, 3, 4, 5, 6)), True),
                Leaf('Chargers', ('Wall Charger', 'Charging Stand'), 9, 90,
                     ('Plug',),
                     ('Power', 'W', (12, 18, 20, 30, 45, 65, 100)), True),
            ), (
                'tempered glass', 'soft silicone', 'braided nylon',
                'aramid fibre', 'vegan leather',
            ), (
                'clumsy owners', 'building sites', 'people who travel light',
                'bedside tables', 'bus drivers', 'hikers',
            )),
        ),
        ('Novaro', 'Kelvanta', 'Ohmstead', 'Brisk Audio', 'Tessaline',
         'Quartzon', 'Ampelio', 'Lyrebird'),
    ),
    Department(
        'Video Games',
        (
            Group('Consoles', (
                Leaf('Controllers',
                     ('Wireless Controller', 'Fight Stick', 'Racing Wheel'),
                     22, 280, ('Colour',),
                     ('Model Year', '',
                      (2017, 2018, 2019, 2020, 2021, 2022))),
                Leaf('Game Card Cases',
                     ('Game Card Case', 'Console Travel Bag'), 7, 60,
                     ('Colour',),
                     ('Capacity', 'cards',
                      (6, 8, 10, 12, 16, 20, 24, 32, 40, 60)), True),
            ), (
                'matte plastic', 'textured rubber', 'hard foam', 'faux leather',
                'woven fabric',
            ), (
                'left-handed players', 'couch co-op', 'small children',
                'tournaments', 'retro fans', 'train rides',
            )),
            Group('PC Gaming', (
                Leaf('Gaming Mice', ('Gaming Mouse', 'Vertical Mouse'), 16, 150,
                     ('Colour',), ('Buttons', 'buttons', (5, 6, 7, 8, 11))),
            ), (
                'matte plastic', 'aluminium', 'textured rubber', 'magnesium',
                'braided cord',
            ), (
                'left-handed players', 'large hands', 'sore wrists',
                'tournaments', 'quiet rooms', 'long nights',
            )),
        ),
        ('Pixelfort', 'Gauntlet Nine', 'Boss Door', 'Ironhare', 'Savepoint',
         'Tiltshade', 'Marrow Games', 'Wren & Joule'),
    ),
    Department(
        'Home & Kitchen',
        (
            Group('Furniture', (
                Leaf('Office Chairs', ('Office Chair', 'Kneeling Chair'), 60,
                     520, ('Colour',),
                     ('Maximum Load', 'kg', (90, 100, 110, 120, 135, 150))),
                Leaf('Bookcases', ('Bookcase', 'Ladder Shelf'), 45, 380,
                     ('Colour',), ('Shelves', 'shelves', (2, 3, 4, 5, 6, 7))),
            ), (
                'solid oak', 'powder-coated steel', 'bamboo', 'woven rattan',
                'beech plywood',
            ), (
                'small flats', 'people with a bad back', 'rented rooms',
                'home offices', 'heavy books', 'tall people',
            )),
            Group('Storage', (
                Leaf('Shoe Racks', ('Shoe Rack', 'Shoe Cabinet'), 18, 190, (),
                     ('Capacity', 'pairs',
                      (6, 8, 10, 12, 15, 18, 20, 24, 30, 36, 50)), True),
                Leaf('Storage Bins', ('Storage Bin', 'Laundry Basket'), 9, 85,
                     ('Colour',),
                     ('Capacity', 'litres', (10, 15, 20, 28, 35, 45, 60, 80))),
            ), (
                'bamboo', 'woven rattan', 'powder-coated steel', 'felt',
                'recycled plastic',
            ), (
                'narrow halls', 'large families', 'rented rooms',
                'damp cellars', 'runners', "children's rooms",
            )),
            Group('Lighting', (
                Leaf('Table Lamps', ('Table Lamp', 'Reading Lamp'), 16, 210,
                     ('Colour',),
                     ('Brightness', 'lumens', (250, 400, 470, 600, 800))),
                Leaf('Ceiling Lights', ('Ceiling Light', 'Pendant Light'), 35,
                     1250, (),
                     ('Brightness', 'lumens', (800, 1200, 1600, 2000, 3200))),
            ), (
                'brushed brass', 'opal glass', 'powder-coated steel', 'linen',
                'turned ash',
            ), (
                'low ceilings', 'bedside reading', 'tired eyes', 'dark halls',
                'large rooms', 'home offices',
            )),
            Group('Kitchen', (
                Leaf('Blenders', ('Blender', 'Hand Blender'), 24, 340,
                     ('Plug',), ('Power', 'W', (300, 500, 700, 900, 1200))),
                Leaf('Coffee Makers', ('Coffee Maker', 'Espresso Machine'), 28,
                     620, ('Plug',), ('Cups', 'cups', (1, 2, 4, 6, 8, 10, 12))),
            ), (
                'stainless steel', 'borosilicate glass', 'cast aluminium',
                'Tritan', 'brushed copper',
            ), (
                'small kitchens', 'large families', 'early risers',
                'shared offices', 'soup lovers', 'camper vans',
            )),
        ),
        ('Hearthmoor', 'Oakling', 'Plain Table', 'Duskline', 'Fjellhus',
         'Copperwell', 'Nine Rooms', 'Alder & Finch'),
    ),
    Department(
        'Grocery & Gourmet Food',
        (
            Group('Snacks', (
                Leaf('Nutrition Bars', ('Protein Bar', 'Granola Bar'), 6, 65,
                     (), _PACKS, True),
                Leaf('Potato Chips', ('Potato Chips', 'Vegetable Chips'), 4, 48,
                     (), _PACKS, True),
            ), (
                'rolled oats', 'sea salt', 'dark chocolate', 'roasted nuts',
                'dried berries',
            ), (
                'lunch boxes', 'long hikes', 'people who avoid gluten',
                'vegans', 'film nights', 'marathon runners',
            )),
            Group('Drinks', (
                Leaf('Green Teas', ('Green Tea', 'Jasmine Tea'), 4, 52, (),
                     ('Pack', 'count', (10, 20, 25, 40, 50, 80, 100)), True),
                Leaf('Coffee Beans', ('Espresso Beans', 'Filter Coffee'), 8, 75,
                     ('Grind',),
                     ('Weight', 'g', (250, 340, 500, 750, 1000)), True),
            ), (
                'whole leaves', 'high-altitude beans', 'orange peel',
                'toasted rice', 'rose petals',
            ), (
                'early mornings', 'late nights', 'offices',
                'people who sleep badly', 'cold brewing', 'gift baskets',
            )),
            Group('Baking', (
                Leaf('Cake Mixes', ('Brownie Mix', 'Cornbread Mix'), 3, 45, (),
                     _PACKS, True),
            ), (
                'dark chocolate', 'cane sugar', 'stone-ground flour',
                'roasted nuts', 'vanilla',
            ), (
                'birthday parties', 'people who avoid gluten', 'beginners',
                'vegans', 'school fairs', 'Sunday guests',
            )),
        ),
        ('Mill Lane', 'Honest Acre', 'Tamberly', 'Goldcrumb', 'Saffron Yard',
         'Two Kettles', 'Plumridge', 'Sierra Tern'),
    ),
    Department(
        'Sports & Outdoors',
        (
            Group('Fitness', (
                Leaf('Yoga Mats', ('Yoga Mat', 'Exercise Mat'), 14, 120,
                     ('Colour',), ('Thickness', 'mm', (3, 4, 5, 6, 8, 10, 15))),
                Leaf('Dumbbells', ('Dumbbell Set', 'Kettlebell'), 16, 310, (),
                     ('Weight', 'kg', (2, 4, 6, 8, 10, 12, 16, 20, 24)), True),
            ), (
                'natural rubber', 'cast iron', 'cork', 'recycled foam',
                'coated steel',
            ), (
                'beginners', 'people with weak knees', 'home gyms',
                'physiotherapy', 'hot yoga', 'strength training',
            )),
            Group('Camping', (
                Leaf('Tents', ('Dome Tent', 'Tunnel Tent'), 55, 640,
                     ('Colour',), ('Sleeps', 'people', (1, 2, 3, 4, 5, 6, 8))),
                Leaf('Sleeping Bags', ('Sleeping Bag', 'Sleeping Quilt'), 30,
                     390, ('Colour',),
                     ('Fill Weight', 'g', (400, 600, 800, 950, 1200))),
            ), (
                'ripstop nylon', 'goose down', 'waxed cotton', 'hollow fibre',
                'aluminium poles',
            ), (
                'beginners', 'festival weekends', 'winter trips',
                'scout groups', 'bike tours', 'families with dogs',
            )),
        ),
        ('Cairnfell', 'Stride Union', 'Bold Heron', 'Muscadet Sports',
         'Ridgewren', 'Open Mile', 'Talus & Co', 'Greywater'),
    ),
    Department(
        'Office Products',
        (
            Group('Desk', (
                Leaf('Desk Organizers', ('Desk Organizer', 'Monitor Stand'), 9,
                     95, ('Colour',)),
                Leaf('Notebooks', ('Dotted Notebook', 'Lined Notebook'), 3, 42,
                     ('Colour',),
                     ('Pages', 'pages', (80, 96, 120, 144, 160, 192, 240))),
            ), (
                'solid walnut', 'recycled paper', 'cork', 'felt',
                'clear acrylic',
            ), (
                'tidy minds', 'shared desks', 'exam season',
                'left-handed writers', 'travel journals', 'architects',
            )),
            Group('Walls', (
                Leaf('Picture Frames', ('Picture Frame', 'Gallery Frame'), 8,
                     130, ('Frame Size', 'Colour')),
            ), (
                'solid walnut', 'brushed brass', 'clear acrylic',
                'painted pine', 'black steel',
            ), (
                'family portraits', 'home galleries', 'concert posters',
                'wedding photos', 'pressed flowers', 'damp bathrooms',
            )),
        ),
        ('Inkhollow', 'Ledger Row', 'Paperwhite Mill', 'Squarely',
         'Desk Bureau', 'Folio Nord', 'Harrow & Pine', 'Marginalia'),
    ),
)  # fmt: skip

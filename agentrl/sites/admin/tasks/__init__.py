"""Tasks on the administration."""

from agentrl.sites.admin.tasks import orders, people, products, reports, reviews

TEMPLATES = (
    *orders.TEMPLATES,
    *products.TEMPLATES,
    *reviews.TEMPLATES,
    *people.TEMPLATES,
    *reports.TEMPLATES,
)
# Intent templates of the public set that none of these stands for.
NO_COUNTERPART = {
    42: 'It asks for a route on the map, which is not one of our sites.',
}

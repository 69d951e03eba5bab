"""Tasks on the administration."""

from agentrl.envs.webarena.admin import (
    tasks_orders,
    tasks_people,
    tasks_products,
    tasks_reports,
    tasks_reviews,
)

TEMPLATES = (
    *tasks_orders.TEMPLATES,
    *tasks_products.TEMPLATES,
    *tasks_reviews.TEMPLATES,
    *tasks_people.TEMPLATES,
    *tasks_reports.TEMPLATES,
)
# Intent templates of the public set that none of these stands for.
NO_COUNTERPART = {
    42: 'It asks for a route on the map, which is not one of our sites.',
}

"""Tasks on the shop.

Those with 40 values are short and simple, for a policy that is tiny.
"""

from agentrl.envs.webarena.shop import (
    tasks_account,
    tasks_buying,
    tasks_lists,
    tasks_orders,
    tasks_pages,
    tasks_products,
)

TEMPLATES = (
    *tasks_pages.TEMPLATES,
    *tasks_orders.TEMPLATES,
    *tasks_products.TEMPLATES,
    *tasks_lists.TEMPLATES,
    *tasks_buying.TEMPLATES,
    *tasks_account.TEMPLATES,
)
# Intent templates of the public set on this site that nothing here stands for.
NO_COUNTERPART = {
    101: 'It joins two sites; the half on the shop is as that of 136.',
}

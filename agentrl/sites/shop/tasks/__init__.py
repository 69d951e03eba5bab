"""Tasks on the shop.

Those with 40 values are short and simple, for a policy that is tiny.
"""

from agentrl.sites.shop.tasks import (
    account,
    buying,
    lists,
    orders,
    pages,
    products,
)

TEMPLATES = (
    *pages.TEMPLATES,
    *orders.TEMPLATES,
    *products.TEMPLATES,
    *lists.TEMPLATES,
    *buying.TEMPLATES,
    *account.TEMPLATES,
)
# Intent templates of the public set on this site that nothing here stands for.
NO_COUNTERPART = {
    101: 'It joins two sites; the half on the shop is as that of 136.',
}
